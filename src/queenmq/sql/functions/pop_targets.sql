-- queen.pop_targets: the groups, and perhaps the partitions, that pops may take from.
--
-- p_asks are positions in the other arrays: one request of each kind. The three ways to ask (a partition, a queue, a
-- namespace and/or task) differ only here. A group's first pop is recorded as its subscription. A group that has not
-- reached all partitions of its queue gets its next chunk of them. Everything that waits for a lock happens in this
-- function, for all kinds together, before the pop takes its first partition: one kind after the other would lock
-- queues and partitions out of order. Paused queues and groups are no targets, but a group subscribes and reaches
-- partitions while it is paused.
--
-- Locks:   queue rows, in name order, only for new or incomplete groups; then those of queen.record_subscription,
--          queen.extend_groups and queen.restart_places.
-- Returns: plain where nothing but this group will do, and its queue knows no delay, window or limit of age; walking
--          where the group had partitions to reach, or another queue of the request is paused: its partitions were
--          ready before and will be again.
create function queen.pop_targets(
    p_asks int[], p_queues text[], p_partitions text[], p_namespaces text[], p_tasks text[], p_groups text[],
    p_modes text[], p_sinces timestamptz[], p_now timestamptz, p_default_mode text
) returns table (ask int, group_id int, queue_id int, partition_id bigint, plain boolean, walking boolean)
language plpgsql as $$
#variable_conflict use_column
declare
    v_ask         int;
    v_ready       boolean;
    v_new         int[] := '{}';       -- requests whose group must subscribe
    v_walking     boolean;
    v_lock        int[] := '{}';       -- requests that need locks: their group must subscribe, or is incomplete
    v_locked      int[] := '{}';       -- the queues whose groups may be extended
    v_target      record;
    v_groups      int[] := '{}';       -- what to extend: groups, and the partition where one is named
    v_partitions  bigint[] := '{}';
    v_recorded    record;
    v_restarts    bigint[] := '{}';    -- partitions, and groups that start there again
    v_restarted   int[] := '{}';
begin
    foreach v_ask in array p_asks loop
        if p_queues[v_ask] is null and p_namespaces[v_ask] is null and p_tasks[v_ask] is null then
            raise exception 'name a queue, a namespace or a task to pop from' using errcode = 'QN400';
        end if;
        if p_queues[v_ask] is not null then
            select g.queue_wide and not g.complete and p_partitions[v_ask] is null,
                   case when p_partitions[v_ask] is null then g.queue_wide and (p_modes[v_ask] is null or g.subscribed)
                        else exists (select from queen.partitions p
                                       join queen.partition_consumers c on c.partition_id = p.id and c.group_id = g.id
                                      where p.queue_id = q.id and p.name = p_partitions[v_ask])
                         and (p_modes[v_ask] is null
                              or exists (select from queen.consumer_groups_metadata m
                                          where m.group_name = p_groups[v_ask] and m.queue_name = p_queues[v_ask]
                                            and m.partition_name = p_partitions[v_ask] and m.namespace = '' and m.task = '')) end
              into v_walking, v_ready
              from queen.queues q join queen.queue_groups g on g.queue_id = q.id and g.name = p_groups[v_ask]
             where q.name = p_queues[v_ask];
        else
            select exists (select from queen.queues q join queen.queue_groups g on g.queue_id = q.id and g.name = p_groups[v_ask]
                            where (p_namespaces[v_ask] is null or q.namespace = p_namespaces[v_ask])
                              and (p_tasks[v_ask] is null or q.task = p_tasks[v_ask]) and g.queue_wide and not g.complete),
                   exists (select from queen.consumer_groups_metadata m
                            where m.group_name = p_groups[v_ask] and m.queue_name = '' and m.partition_name = ''
                              and m.namespace = coalesce(p_namespaces[v_ask], '') and m.task = coalesce(p_tasks[v_ask], ''))
                   and not exists (select from queen.queues q    -- the group may have been deleted from one of them
                                    where (p_namespaces[v_ask] is null or q.namespace = p_namespaces[v_ask])
                                      and (p_tasks[v_ask] is null or q.task = p_tasks[v_ask])
                                      and not exists (select from queen.queue_groups g
                                                       where g.queue_id = q.id and g.name = p_groups[v_ask] and g.queue_wide))
              into v_walking, v_ready;
        end if;
        if v_ready is not true then
            v_new := v_new || v_ask;
        end if;
        if v_walking or v_ready is not true then
            v_lock := v_lock || v_ask;
        end if;
    end loop;

    if v_lock <> '{}' then
        v_locked := array(
            select q.id from queen.queues q
             where q.id = any (array(
                       select q.id from unnest(v_lock) as a (ask)
                        cross join lateral (
                              select q.id from queen.queues q where q.name = p_queues[a.ask]
                              union all
                              select q.id from queen.queues q
                               where p_queues[a.ask] is null
                                 and (p_namespaces[a.ask] is null or q.namespace = p_namespaces[a.ask])
                                 and (p_tasks[a.ask] is null or q.task = p_tasks[a.ask])
                                 and (a.ask = any (v_new) or exists (select from queen.queue_groups g
                                                                      where g.queue_id = q.id and g.name = p_groups[a.ask]
                                                                        and g.queue_wide and not g.complete))) as q))
             order by q.name for no key update);
    end if;
    foreach v_ask in array array(select a.ask from unnest(v_new) as a (ask)
                                  order by p_queues[a.ask], p_namespaces[a.ask], p_tasks[a.ask], p_partitions[a.ask], p_groups[a.ask]) loop
        select r.group_id, r.places into v_recorded
          from queen.record_subscription(p_groups[v_ask], p_queues[v_ask], p_partitions[v_ask], p_namespaces[v_ask],
                                         p_tasks[v_ask], p_modes[v_ask], p_sinces[v_ask], p_now,
                                         case p_groups[v_ask] when '__QUEUE_MODE__' then 'all' else p_default_mode end,
                                         v_locked) as r;
        v_restarts := v_restarts || v_recorded.places;
        v_restarted := v_restarted || array_fill(v_recorded.group_id, array[cardinality(v_recorded.places)]);
    end loop;

    foreach v_ask in array p_asks loop
        for v_target in
            select g.id, g.queue_id, g.queue_wide and not g.complete as walking, p.id as partition_id,
                   c.group_id is null as unreached, q.paused or g.paused as paused, bool_or(q.paused or g.paused) over () as some_paused,
                   p_queues[v_ask] is not null
                   and q.delayed_processing_seconds + q.window_buffer_seconds + q.age_limit_seconds = 0 as plain
              from queen.queues q
              join queen.queue_groups g on g.queue_id = q.id and g.name = p_groups[v_ask]
              left join queen.partitions p on p.queue_id = q.id and p.name = p_partitions[v_ask]
              left join queen.partition_consumers c on c.partition_id = p.id and c.group_id = g.id
             where case when p_queues[v_ask] is not null then q.name = p_queues[v_ask]
                        else (p_namespaces[v_ask] is null or q.namespace = p_namespaces[v_ask])
                         and (p_tasks[v_ask] is null or q.task = p_tasks[v_ask]) end
             order by g.queue_id
        loop
            continue when p_partitions[v_ask] is not null and v_target.partition_id is null;
            -- A group that became incomplete since the locks were taken is extended by the next pop.
            if v_target.queue_id = any (v_locked)
               and ((v_target.partition_id is null and v_target.walking)
                    or (v_target.partition_id is not null and v_target.unreached)) then
                v_groups := v_groups || v_target.id;
                v_partitions := v_partitions || v_target.partition_id;
            end if;
            continue when v_target.paused;
            ask := v_ask;
            group_id := v_target.id;
            queue_id := v_target.queue_id;
            partition_id := v_target.partition_id;
            plain := v_target.plain;
            walking := v_target.walking or v_target.some_paused;
            return next;
        end loop;
    end loop;
    -- Those that start again come along, so that the lookup rows of all are locked together.
    if v_groups || v_restarted <> '{}' then
        perform queen.extend_groups(v_groups || v_restarted, v_partitions || v_restarts, p_now => p_now);
    end if;
    if v_restarts <> '{}' then
        perform queen.restart_places(v_restarted, v_restarts, p_now);
    end if;
end $$;
comment on function queen.pop_targets is 'Resolve what pops name into groups; subscribes on the first pop.';
