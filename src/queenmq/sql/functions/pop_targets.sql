-- queen.pop_targets: the groups, and perhaps the partition, that a pop may take from.
--
-- The three ways to ask (a partition, a queue, a namespace and/or task) differ only here. A
-- group's first pop is recorded as its subscription; a group that has not reached all partitions
-- of its queue walks on by one chunk. Everything that waits for a lock happens in this function,
-- before the pop takes its first partition.
--
-- Locks:   queue rows, only for new or incomplete groups.
-- Returns: plain where nothing but this group will do, and its queue knows no delay, window or limit of age.
create function queen.pop_targets(
    p_queue text, p_partition text, p_namespace text, p_task text, p_group text,
    p_mode text, p_since timestamptz, p_now timestamptz
) returns table (group_id int, queue_id int, partition_id bigint, plain boolean)
language plpgsql as $$
#variable_conflict use_column
declare
    v_target  record;
    v_ready   boolean;
begin
    if p_queue is null and p_namespace is null and p_task is null then
        raise exception 'name a queue, a namespace or a task to pop from' using errcode = 'QN400';
    end if;
    if p_queue is not null then
        select case when p_partition is null then g.queue_wide
                    else exists (select from queen.partitions p
                                   join queen.partition_consumers c on c.partition_id = p.id and c.group_id = g.id
                                  where p.queue_id = q.id and p.name = p_partition) end
          into v_ready
          from queen.queues q join queen.queue_groups g on g.queue_id = q.id and g.name = p_group
         where q.name = p_queue;
    else
        select exists (select from queen.consumer_groups_metadata m
                        where m.group_name = p_group and m.queue_name = '' and m.partition_name = ''
                          and m.namespace = coalesce(p_namespace, '') and m.task = coalesce(p_task, ''))
               and not exists (select from queen.queues q    -- the group may have been deleted from one of them
                                where (p_namespace is null or q.namespace = p_namespace) and (p_task is null or q.task = p_task)
                                  and not exists (select from queen.queue_groups g
                                                   where g.queue_id = q.id and g.name = p_group and g.queue_wide))
          into v_ready;
    end if;
    if v_ready is not true then
        perform queen.record_subscription(p_group, p_queue, p_partition, p_namespace, p_task, p_mode, p_since, p_now);
    end if;

    for v_target in
        select g.id, g.queue_id, g.queue_wide and not g.complete as walking, p.id as partition_id,
               c.group_id is null as unreached,
               p_queue is not null and q.delayed_processing_seconds + q.window_buffer_seconds + q.max_wait_seconds = 0 as plain
          from queen.queues q
          join queen.queue_groups g on g.queue_id = q.id and g.name = p_group
          left join queen.partitions p on p.queue_id = q.id and p.name = p_partition
          left join queen.partition_consumers c on c.partition_id = p.id and c.group_id = g.id
         where case when p_queue is not null then q.name = p_queue
                    else (p_namespace is null or q.namespace = p_namespace)
                     and (p_task is null or q.task = p_task) end
         order by g.queue_id
    loop
        if p_partition is not null then
            continue when v_target.partition_id is null;
            if v_target.unreached then
                perform queen.extend_group(v_target.id, 1, v_target.partition_id, p_now);
            end if;
        elsif v_target.walking then
            perform queen.extend_group(v_target.id, p_now => p_now);
        end if;
        group_id := v_target.id;
        queue_id := v_target.queue_id;
        partition_id := v_target.partition_id;
        plain := v_target.plain;
        return next;
    end loop;
end $$;
comment on function queen.pop_targets is 'Resolve what a pop names into groups; subscribes on the first pop.';
