-- queen.extend_group: walk a new group up the partitions of its queue, a chunk at a time.
--
-- A new group on a queue of a million partitions must not make its first pop wait for a million
-- rows. Pops and upkeep call this until the group is complete; a partition without a row is
-- simply not reached yet. Under the queue's lock no partition can be in the making with a
-- smaller id than one already visible, so nothing is passed over. With p_partition_id only that
-- partition is reached, for a pop that names it.
--
-- A push in flight would not see the new row and could not wake it: the lookup rows are locked
-- before the row decides whether it is ready.
--
-- Locks:   the queue row; the lookup rows, shared, in partition_id order; the queue_depths row.
-- Returns: the number of partitions reached by this call.
create function queen.extend_group(
    p_group_id      int,
    p_limit         int default 1000,
    p_partition_id  bigint default null,
    p_now           timestamptz default clock_timestamp()
) returns int
language plpgsql
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off
set jit = off
as $$
declare
    v_group  record;
    v_ids    bigint[];
begin
    perform 1 from queen.queues q
      where q.id = (select queue_id from queen.queue_groups where id = p_group_id) for no key update;
    select g.name, g.queue_id, g.reached_partition_id, g.queue_wide and not g.complete as walking,
           q.delayed_processing_seconds, q.window_buffer_seconds
      into v_group
      from queen.queue_groups g join queen.queues q on q.id = g.queue_id
     where g.id = p_group_id;

    if p_partition_id is not null then
        v_ids := array[p_partition_id];
    elsif v_group.walking then
        v_ids := array(select partition_id from queen.partition_lookup
                        where queue_id = v_group.queue_id and partition_id > v_group.reached_partition_id
                        order by partition_id limit p_limit);
    else
        return 0;
    end if;

    perform 1 from queen.partition_lookup where partition_id = any (v_ids) order by partition_id for share;
    perform queen.forget_depth(array[v_group.queue_id]);

    insert into queen.partition_consumers (partition_id, group_id, committed, origin, ready_at)
    select l.partition_id, p_group_id, f.committed, f.committed,
           queen.ready_after(l.partition_id, f.committed, v_group.delayed_processing_seconds,
                             v_group.window_buffer_seconds, p_now)
      from unnest(v_ids) as c (id)    -- offset 0: row by row, and asked once, whatever the planner believes
     cross join lateral (select l.* from queen.partition_lookup l where l.partition_id = c.id offset 0) as l
     cross join lateral (select p.name from queen.partitions p where p.id = c.id offset 0) as p
     cross join lateral queen.subscription(v_group.name, v_group.queue_id, p.name) as s
     cross join lateral (select case s.mode when 'all' then l.start_offset
                                else queen.offset_at(c.id, s.since) end as committed offset 0) as f
     where not exists (select from queen.partition_consumers o
                        where o.partition_id = c.id and o.group_id = p_group_id offset 0);

    if p_partition_id is null then
        update queen.queue_groups
           set reached_partition_id = greatest(reached_partition_id, v_ids[cardinality(v_ids)]),
               complete = cardinality(v_ids) < p_limit
         where id = p_group_id;
    end if;
    return cardinality(v_ids);
end $$;
comment on function queen.extend_group is 'Create the next chunk of a new group''s partition rows.';
