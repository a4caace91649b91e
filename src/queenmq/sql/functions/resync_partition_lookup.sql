-- queen.resync_partition_lookup: make the ends of partitions agree with the segments that are stored.
--
-- They are kept in the transaction of each push and should never differ; this repairs what a hand in
-- the tables or a damaged disk has done. An empty partition keeps its next offset: offsets are never
-- given twice, and no cursor may stand beyond the end. Groups are moved past what is no longer there
-- and woken for what is. p_queue null: all queues.
--
-- Locks:   lookup rows, in partition_id order; depth_bounds rows; consumer rows.
-- Raises:  QN404 no such queue.
-- Returns: the number of rows corrected.
create function queen.resync_partition_lookup(
    p_queue  text        default null,
    p_now    timestamptz default clock_timestamp()
) returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_queues  int[] := case when p_queue is not null then array[queen.find_queue(p_queue)]
                            else array(select id from queen.queues) end;
    v_ids     bigint[];
begin
    perform 1 from queen.partition_lookup where queue_id = any (v_queues) order by partition_id for no key update;
    perform queen.forget_depth(v_queues);

    with truth as (
        select l.partition_id, n.next_offset, coalesce(f.first_offset, n.next_offset) as start_offset,
               coalesce(e.created_at, l.last_message_at) as last_message_at
          from queen.partition_lookup l
          left join lateral (select s.first_offset from queen.segments s where s.partition_id = l.partition_id
                              order by s.first_offset limit 1) as f on true
          left join lateral (select s.first_offset + s.message_count as ends, s.created_at from queen.segments s
                              where s.partition_id = l.partition_id order by s.first_offset desc limit 1) as e on true
         cross join lateral (
             select greatest(coalesce(e.ends, l.next_offset), (
                        select max(c.committed) from queen.partition_consumers c
                         where c.partition_id = l.partition_id)) as next_offset) as n
         where l.queue_id = any (v_queues)
    ), corrected as (
        update queen.partition_lookup l
           set next_offset = t.next_offset, start_offset = t.start_offset, last_message_at = t.last_message_at,
               last_message_slot = date_bin('10 minutes', t.last_message_at, 'epoch'), message_bytes = 2147483647    -- unknown
          from truth t
         where l.partition_id = t.partition_id
           and ((l.next_offset, l.start_offset, l.last_message_at)
                is distinct from (t.next_offset, t.start_offset, t.last_message_at)
                or coalesce(l.last_message_slot, '-infinity') < date_bin('10 minutes', t.last_message_at, 'epoch'))
        returning l.partition_id
    )
    select array_agg(partition_id) into v_ids from corrected;

    perform 1 from queen.partition_consumers where partition_id = any (v_ids) order by partition_id, group_id for update;
    perform queen.skip_deleted(v_ids, p_now);
    update queen.partition_consumers c
       set ready_at = queen.ready_after(c.partition_id, c.committed, q.delayed_processing_seconds,
                                        q.window_buffer_seconds, p_now)
      from queen.partition_lookup l join queen.queues q on q.id = l.queue_id
     where l.partition_id = any (v_ids) and c.partition_id = l.partition_id and c.lease_id is null
       and (c.ready_at is null) <> (c.committed >= l.next_offset);
    return coalesce(cardinality(v_ids), 0);
end $$;
comment on function queen.resync_partition_lookup is 'Recompute partition_lookup from segments; returns the rows corrected.';
