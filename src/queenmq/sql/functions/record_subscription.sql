-- queen.record_subscription: what a group reads, at its first pop; the first mode wins.
--
-- p_mode (by any of its names, queen.subscription_mode) 'all' reads from the beginning, 'new' from p_since (now, less a little), 'timestamp' from p_since. Without a
-- mode (null) a subscription that covers the request already decides; if there is none, p_default_mode is recorded. The
-- queue need not exist yet.
--
-- The most specific subscription wins (queen.subscription). If a group that reads a namespace or a whole queue
-- subscribes to a queue or partition of it, this decides for the partitions that it has not begun to read.
--
-- A caller that locks more than these queues locks all of them first and names them in p_locked. A queue that was created
-- since then is left out: its lock would come out of order. The group joins it with its next pop.
--
-- Locks:   the queue rows (queen.extend_groups' own lock) in name order, where the queues exist; then the
--          subscription's row; then the groups' rows. If the subscription's row came first, the first pops of two groups
--          could wait for each other, one for the queue and one for the row.
-- Raises:  QN421 bad name, QN400 unknown mode, QN425 a timestamp is missing.
-- Returns: the queues that it covers; the partitions where the group must start again, and its id there: the caller
--          hands them to queen.restart_places.
create function queen.record_subscription(
    p_group         text,
    p_queue         text,
    p_partition     text,
    p_namespace     text,
    p_task          text,
    p_mode          text,
    p_since         timestamptz,
    p_now           timestamptz default clock_timestamp(),
    p_default_mode  text default 'all',
    p_locked        int[] default null,    -- queues that the caller has locked: no others are covered
    out queue_ids   int[],
    out group_id    int,
    out places      bigint[]
)
language plpgsql as $$
declare
    v_mode    text;
    v_queue   int;
begin
    perform queen.check_name(p_group, 'group');
    if p_queue is not null then perform queen.check_name(p_queue, 'queue'); end if;
    if p_partition is not null then perform queen.check_name(p_partition, 'partition'); end if;
    p_mode := queen.subscription_mode(p_mode);
    v_mode := coalesce(p_mode, p_default_mode);
    if v_mode = 'timestamp' and p_since is null then
        raise exception 'subscription mode timestamp needs a timestamp' using errcode = 'QN425';
    end if;

    places := '{}';
    queue_ids := array(
        select q.id from queen.queues q
         where case when p_queue is not null then q.name = p_queue
                    else (p_namespace is null or q.namespace = p_namespace)
                     and (p_task is null or q.task = p_task) end
           and (p_locked is null or q.id = any (p_locked))
         order by q.name for no key update);

    if not exists (
        select from queen.consumer_groups_metadata m
         where m.group_name = p_group
           and ((m.queue_name = coalesce(p_queue, '') and m.partition_name = coalesce(p_partition, '')
                 and m.namespace = coalesce(p_namespace, '') and m.task = coalesce(p_task, ''))
                or (p_mode is null and p_queue is not null
                    and ((m.queue_name = p_queue and m.partition_name = '')
                         or (m.queue_name = '' and (m.namespace <> '' or m.task <> '')
                             and exists (select from queen.queues q where q.id = any (queue_ids)
                                            and (m.namespace = '' or m.namespace = q.namespace)
                                            and (m.task = '' or m.task = q.task)))))))
    then
        if p_queue is not null and queue_ids <> '{}' then
            select g.id into group_id from queen.queue_groups g where g.queue_id = queue_ids[1] and g.name = p_group;
            places := queen.general_places(group_id, p_partition);
        end if;
        insert into queen.consumer_groups_metadata
            (group_name, queue_name, partition_name, namespace, task, mode, since, created_at)
        values (p_group, coalesce(p_queue, ''), coalesce(p_partition, ''), coalesce(p_namespace, ''),
                coalesce(p_task, ''), v_mode,
                case v_mode when 'all' then '-infinity' else coalesce(p_since, p_now) end, p_now)
        on conflict do nothing;
    end if;

    foreach v_queue in array queue_ids loop
        perform queen.attach_groups(v_queue);
    end loop;
end $$;
comment on function queen.record_subscription is 'Record a group''s subscription, once; answers the queues it covers.';
