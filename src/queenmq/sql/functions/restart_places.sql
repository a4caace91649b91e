-- queen.restart_places: put groups again where their subscriptions say, in partitions they have not begun to read.
--
-- One element of both arrays is one group in one partition.
--
-- Locks:   the lookup rows, shared, in partition_id order; the depth_bounds rows; the consumer rows, in the order of
--          partition_id and group_id.
create function queen.restart_places(p_group_ids int[], p_partition_ids bigint[], p_now timestamptz) returns void
language plpgsql as $$
begin
    perform 1 from queen.partition_lookup where partition_id = any (p_partition_ids) order by partition_id for share;
    perform queen.forget_depth(array(select g.queue_id from queen.queue_groups g where g.id = any (p_group_ids)));
    perform from (select k.id, k.g from unnest(p_partition_ids, p_group_ids) as k (id, g) order by k.id, k.g) as k
      cross join lateral (select from queen.partition_consumers c
                           where (c.partition_id, c.group_id) >= (k.id, k.g) and (c.partition_id, c.group_id) <= (k.id, k.g)
                           order by c.partition_id desc, c.group_id desc limit 1 for update) as c;
    update queen.partition_consumers c
       set committed = n.committed, origin = n.committed, ready_at = n.ready_at, starts_at = n.starts_at
      from unnest(p_partition_ids, p_group_ids) as k (id, group_id)    -- offset 0: row by row, whatever the planner believes
     cross join lateral (select o.ctid as place, o.last_served_at from queen.partition_consumers o
                          where o.partition_id = k.id and o.group_id = k.group_id offset 0) as o
     cross join lateral (select g.name, g.queue_id, q.delayed_processing_seconds, q.window_buffer_seconds
                           from queen.queue_groups g join queen.queues q on q.id = g.queue_id
                          where g.id = k.group_id offset 0) as g
     cross join lateral (select p.name from queen.partitions p where p.id = k.id offset 0) as p
     cross join lateral queen.subscription(g.name, g.queue_id, p.name) as s
     cross join lateral queen.place_at(k.id, s.mode, s.since, g.delayed_processing_seconds,
                                       g.window_buffer_seconds, p_now) as n
     where c.ctid = o.place and o.last_served_at is null;    -- locked above: it has not moved
end $$;
comment on function queen.restart_places is 'Move groups to where their subscriptions say, where they have not begun to read.';
