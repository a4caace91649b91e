-- queen.wake_groups: after an append, make the partitions ready for the groups that had read all.
--
-- Only rows whose ready_at is null are touched; whoever sets it to null does so holding the
-- lookup row, shared, and the pusher holds it exclusively: neither can miss the other. With a
-- window buffer every append starts the quiet time anew for partitions that nobody holds.
--
-- Locks:   consumer rows, without waiting. A row that has read all is locked only by a transaction that has locked its lookup
--          row, and the caller holds that one exclusively: so these rows need no order, and the scan by ctid can stay.
--          Rows that only move their quiet time are skipped if they are locked: then a pop is leasing them, and its
--          transaction may wait for the lookup row when it acknowledges them.
-- Returns: the partitions where some group was woken.
create function queen.wake_groups(
    p_partition_ids bigint[], p_queue_ids int[], p_held boolean, p_now timestamptz) returns bigint[]
language plpgsql as $$
declare
    v_groups  int[];
    v_queues  int[];
    v_places  tid[];
    v_woken   bigint[];
begin
    if not p_held then
        if queen.few_versions('queen.partition_consumers_place', cardinality(p_partition_ids)) then
            v_places := array(select c.ctid from queen.partition_consumers c
                               where c.partition_id = any (p_partition_ids) and c.ready_at is null);
        else    -- row by row, the newest version first
            select array_agg(g.id), array_agg(g.queue_id) into v_groups, v_queues
              from queen.queue_groups g where g.queue_id = any (array(select distinct unnest(p_queue_ids)));
            v_places := array(
                select c.place
                  from unnest(p_partition_ids, p_queue_ids) as k (id, queue_id)
                  join unnest(v_groups, v_queues) as g (id, queue_id) on g.queue_id = k.queue_id
                 cross join lateral (select c.ctid as place, c.ready_at from queen.partition_consumers c
                                      where c.partition_id = k.id and c.group_id between g.id and g.id
                                      order by c.group_id desc limit 1) as c
                 where c.ready_at is null);
        end if;
        with woken as (    -- they have not moved: who changes such a row has the lookup row
            update queen.partition_consumers c set ready_at = p_now where c.ctid = any (v_places)
            returning c.partition_id)
        select array_agg(partition_id) into v_woken from woken;
    else
        v_places := array(select c.ctid from queen.partition_consumers c
                           where c.partition_id = any (p_partition_ids) and c.ready_at is null);
        v_places := v_places || array(
            select c.ctid from queen.partition_consumers c
             where c.partition_id = any (array(select k.id from unnest(p_partition_ids, p_queue_ids) as k (id, queue_id)
                                                 join queen.queues q on q.id = k.queue_id and q.window_buffer_seconds > 0))
               and c.ready_at is not null and c.lease_id is null
               for update skip locked);
        with woken as (
            update queen.partition_consumers c
               set ready_at = greatest(c.ready_at, p_now + make_interval(
                       secs => greatest(case when c.ready_at is null then q.delayed_processing_seconds else 0 end,
                                        q.window_buffer_seconds)))
              from queen.queue_groups g join queen.queues q on q.id = g.queue_id
             where c.ctid = any (v_places) and g.id = c.group_id    -- they have not moved
            returning c.partition_id)
        select array_agg(partition_id) into v_woken from woken;
    end if;
    return coalesce(v_woken, '{}');
end $$;
comment on function queen.wake_groups is 'Mark freshly written partitions ready for the groups that were waiting.';
