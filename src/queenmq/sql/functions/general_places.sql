-- queen.general_places: the partitions where a group still stands where its subscription put it.
--
-- A more specific subscription that comes later may start the group elsewhere in these. A partition from which the
-- group was served, in which it was moved, or where something is done already keeps its cursor. With p_partition only that partition is looked at.
create function queen.general_places(p_group_id int, p_partition text) returns bigint[]
language sql stable as $$
    select coalesce(array_agg(c.partition_id order by c.partition_id), '{}')
      from queen.queue_groups g
     cross join lateral (select p.id, p.name from queen.partitions p
                          where p.queue_id = g.queue_id and p.name = p_partition
                         union all
                         select p.id, p.name from queen.partitions p
                          where p.queue_id = g.queue_id and p_partition is null) as p
     cross join lateral (select c.* from queen.partition_consumers c
                          where c.partition_id = p.id and c.group_id = g.id offset 0) as c
     cross join lateral queen.subscription(g.name, g.queue_id, p.name) as s
     where g.id = p_group_id and c.last_served_at is null and c.committed = c.origin and isempty(c.acked)
       and c.completed + c.dead_lettered + c.expired = 0 and c.retries is null and c.lapses is null
       and (c.starts_at is not null
            or c.committed = case s.mode when 'all' then (select least(c.committed, l.start_offset) from queen.partition_lookup l
                                                           where l.partition_id = c.partition_id)
                                         else queen.offset_at(c.partition_id, s.since) end)
$$;
comment on function queen.general_places is 'Partitions in which a group has not moved from where its subscription put it.';
