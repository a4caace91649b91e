-- queen.record_subscription: what a group reads, at its first pop; the first mode wins.
--
-- p_mode 'all' reads from the beginning, 'new' from p_since (now, less a little), 'timestamp'
-- from p_since. For a queue that does not exist yet only a mode other than 'all' is worth a row:
-- whoever starts at the beginning misses nothing by being recorded later.
--
-- Locks:   the queue rows (queen.extend_group's own lock) in id order, where the queues exist; then the
--          subscription's row. The other way round, one of two groups' first pops would hold the
--          queue and wait for the row, and the other would have the row and wait for the queue.
-- Raises:  QN421 bad name, QN400 unknown mode, QN425 a timestamp is missing.
-- Returns: the queues that it covers.
create function queen.record_subscription(
    p_group      text,
    p_queue      text,
    p_partition  text,
    p_namespace  text,
    p_task       text,
    p_mode       text,
    p_since      timestamptz,
    p_now        timestamptz default clock_timestamp()
) returns int[]
language plpgsql as $$
declare
    v_queues  int[];
    v_queue   int;
begin
    perform queen.check_name(p_group, 'group');
    if p_queue is not null then perform queen.check_name(p_queue, 'queue'); end if;
    if p_partition is not null then perform queen.check_name(p_partition, 'partition'); end if;
    if p_mode not in ('all', 'new', 'timestamp') then
        raise exception 'unknown subscription mode "%"; use all, new or timestamp', p_mode using errcode = 'QN400';
    elsif p_mode = 'timestamp' and p_since is null then
        raise exception 'subscription mode timestamp needs a timestamp' using errcode = 'QN425';
    end if;

    v_queues := array(
        select q.id from queen.queues q
         where case when p_queue is not null then q.name = p_queue
                    else (p_namespace is null or q.namespace = p_namespace)
                     and (p_task is null or q.task = p_task) end
         order by q.id for no key update);

    if p_queue is null or p_mode <> 'all' or v_queues <> '{}' then
        insert into queen.consumer_groups_metadata
            (group_name, queue_name, partition_name, namespace, task, mode, since, created_at)
        values (p_group, coalesce(p_queue, ''), coalesce(p_partition, ''), coalesce(p_namespace, ''),
                coalesce(p_task, ''), p_mode,
                case p_mode when 'all' then '-infinity' else coalesce(p_since, p_now) end, p_now)
        on conflict do nothing;
    end if;

    foreach v_queue in array v_queues loop
        perform queen.attach_groups(v_queue);
    end loop;
    return v_queues;
end $$;
comment on function queen.record_subscription is 'Record a group''s subscription, once; answers the queues it covers.';
