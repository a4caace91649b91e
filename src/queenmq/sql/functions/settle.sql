-- queen.settle: put rows that a pop claimed, and could not use, to rest.
--
-- A partition can be called ready and have nothing to deliver: its messages were passed over, or
-- are not due yet. Rows that do have something are left as they are. The pop may not wait for
-- lookup rows while it holds consumer rows, so a partition being written right now stays ready.
--
-- Locks:   lookup rows, shared, never waiting.
-- Returns: the partitions that are not ready any more.
create function queen.settle(p_group_id int, p_partition_ids bigint[], p_now timestamptz) returns bigint[]
language plpgsql as $$
declare
    v_quiet   bigint[];
    v_rested  bigint[];
begin
    select array_agg(l.partition_id) into v_quiet
      from unnest(p_partition_ids) as k (id)
     cross join lateral (select l.partition_id from queen.partition_lookup l where l.partition_id between k.id and k.id
                          order by l.partition_id desc limit 1 for share skip locked) as l;
    with rested as (
        update queen.partition_consumers c
           set ready_at = n.ready_at, 
               lapses = queen.add_lapse(c.lapses, c.lease_from, c.lease_to, c.committed, c.acked + c.nacked),
               lease_id = null, lease_from = null, lease_to = null, nacked = '{}'
          from (select o.place, queen.ready_after(k.id, o.committed, q.delayed_processing_seconds, q.window_buffer_seconds,
                                                  p_now) as ready_at
                  from unnest(v_quiet) as k (id)
                 cross join lateral (select o.ctid as place, o.committed from queen.partition_consumers o
                                      where o.partition_id = k.id and o.group_id = p_group_id offset 0) as o
                  join queen.queue_groups g on g.id = p_group_id
                  join queen.queues q on q.id = g.queue_id offset 0) as n    -- asked once
         where c.ctid = n.place and (n.ready_at is null or n.ready_at > p_now)    -- locked: it has not moved
        returning c.partition_id
    )
    select array_agg(r.partition_id) into v_rested from rested r;
    return coalesce(v_rested, '{}');
end $$;
comment on function queen.settle is 'Recompute ready_at of claimed rows that have nothing to deliver.';
