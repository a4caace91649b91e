-- queen.extend_groups: create the next partition_consumers rows of groups that have not reached all partitions.
--
-- Each group gets rows for the next p_limit partitions of its queue, in partition_id order, until it is complete. If
-- p_partition_ids[i] is set, group i gets the row of that partition only: a pop has named it. A partition without a row
-- is not reached yet. Under the queue's lock no partition that is being created has a smaller id than one that is
-- visible, so no partition is passed over.
--
-- A push in flight would not see the new row and could not wake it: the lookup rows are locked before a row decides
-- whether it is ready.
--
-- All locks of one kind are taken in one statement for all groups. One group after the other would lock the partitions
-- of two queues in an order of its own, and block a push to both.
--
-- Locks:   the queue rows, in name order; the groups' own rows, in id order; the lookup rows, shared, in partition_id
--          order; the depth_bounds rows.
-- Returns: the number of partitions reached by this call, summed over the groups.
create function queen.extend_groups(
    p_group_ids      int[],
    p_partition_ids  bigint[]    default null,
    p_limit          int         default 1000,
    p_now            timestamptz default clock_timestamp()
) returns int
language plpgsql
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off
set jit = off
as $$
declare
    v_queues   int[] := array(select g.queue_id from queen.queue_groups g where g.id = any (p_group_ids));
    v_walking  int[];
    v_groups   int[];     -- one element per row to create: its group, its partition
    v_ids      bigint[];
begin
    perform 1 from queen.queues q where q.id = any (v_queues) order by q.name for no key update;
    v_walking := array(
        select g.id from queen.queue_groups g
         where g.id = any (array(select i.id from unnest(p_group_ids, p_partition_ids) as i (id, partition_id)
                                  where i.partition_id is null))
           and g.queue_wide and not g.complete
         order by g.id for no key update);
    if v_walking = '{}' and coalesce(array_remove(p_partition_ids, null), '{}') = '{}' then
        return 0;
    end if;
    -- In the order of ids, so that partitions that are ready at the same moment are served in it.
    select coalesce(array_agg(n.group_id order by n.partition_id, n.group_id), '{}'),
           coalesce(array_agg(n.partition_id order by n.partition_id, n.group_id), '{}') into v_groups, v_ids
      from (select i.id as group_id, i.partition_id from unnest(p_group_ids, p_partition_ids) as i (id, partition_id)
             where i.partition_id is not null
            union
            select g.id, l.partition_id
              from unnest(v_walking) as w (id)
              join queen.queue_groups g on g.id = w.id
             cross join lateral (select l.partition_id from queen.partition_lookup l
                                  where l.queue_id = g.queue_id and l.partition_id > g.reached_partition_id
                                  order by l.partition_id limit p_limit) as l) as n;

    perform 1 from queen.partition_lookup where partition_id = any (v_ids) order by partition_id for share;
    perform queen.forget_depth(v_queues);

    insert into queen.partition_consumers (partition_id, group_id, committed, origin, ready_at, starts_at)
    select k.id, k.group_id, n.committed, n.committed, n.ready_at, n.starts_at
      from unnest(v_groups, v_ids) as k (group_id, id)    -- offset 0: row by row, and evaluated once
     cross join lateral (select g.name, g.queue_id, q.delayed_processing_seconds, q.window_buffer_seconds
                           from queen.queue_groups g join queen.queues q on q.id = g.queue_id
                          where g.id = k.group_id offset 0) as g
     cross join lateral (select p.name from queen.partitions p where p.id = k.id offset 0) as p
     cross join lateral queen.subscription(g.name, g.queue_id, p.name) as s
     cross join lateral queen.place_at(k.id, s.mode, s.since, g.delayed_processing_seconds, g.window_buffer_seconds, p_now) as n
     where not exists (select from queen.partition_consumers o
                        where o.partition_id = k.id and o.group_id = k.group_id offset 0);

    update queen.queue_groups g
       set reached_partition_id = greatest(g.reached_partition_id, r.last), complete = r.count < p_limit
      from (select w.id, count(n.id) as count, max(n.id) as last
              from unnest(v_walking) as w (id)
              left join unnest(v_groups, v_ids) as n (group_id, id) on n.group_id = w.id
             group by w.id) as r
     where g.id = r.id;
    return cardinality(v_ids);
end $$;
comment on function queen.extend_groups is 'Create the next chunk of partition rows of several groups.';
