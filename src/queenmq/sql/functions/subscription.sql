-- queen.subscription: the subscription that decides where a group starts in a partition.
--
-- The most specific one wins: partition, queue, namespace, task; without any, everything is read.
create function queen.subscription(
    p_group text, p_queue_id int, p_partition text,
    out mode text, out since timestamptz
)
language sql stable as $$
    select coalesce(s.mode, 'all'), coalesce(s.since, '-infinity')
      from queen.queues q
      left join lateral (
          select m.mode, m.since from queen.consumer_groups_metadata m
           where m.group_name = p_group
             and ((m.queue_name = q.name and m.partition_name in ('', p_partition))
                  or (m.queue_name = '' and (m.namespace <> '' or m.task <> '')
                      and (m.namespace = '' or m.namespace = q.namespace)
                      and (m.task = '' or m.task = q.task)))
           order by m.partition_name <> '' desc, m.queue_name <> '' desc, m.namespace <> '' desc, m.id
           limit 1) as s on true
     where q.id = p_queue_id
$$;
comment on function queen.subscription is 'Mode and start of the most specific subscription of a group.';
