-- queen.attach_groups: give a queue the groups whose subscriptions already cover it.
--
-- A group may subscribe to a namespace, or to a queue that nobody has pushed to yet. Called
-- under the queue's row lock when a queue is born or moves to another namespace or task.
create function queen.attach_groups(p_queue_id int) returns void
language sql as $$
    insert into queen.queue_groups (queue_id, name, queue_wide, subscribed)
    select q.id, m.group_name, bool_or(m.partition_name = ''), bool_or(m.queue_name <> '' and m.partition_name = '')
      from queen.queues q
      join queen.consumer_groups_metadata m
        on m.queue_name = q.name
        or (m.queue_name = '' and (m.namespace <> '' or m.task <> '')
            and (m.namespace = '' or m.namespace = q.namespace) and (m.task = '' or m.task = q.task))
     where q.id = p_queue_id
     group by q.id, m.group_name
    on conflict (queue_id, name) do update
       set queue_wide = queue_groups.queue_wide or excluded.queue_wide,
           subscribed = queue_groups.subscribed or excluded.subscribed
     where (excluded.queue_wide and not queue_groups.queue_wide) or (excluded.subscribed and not queue_groups.subscribed)
$$;
comment on function queen.attach_groups is 'Create the groups of a queue that its subscriptions call for.';
