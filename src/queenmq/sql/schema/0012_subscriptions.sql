-- A group that subscribed to a moment in the future: messages that are pushed before starts_at are not its own.
alter table queen.partition_consumers add column starts_at timestamptz;
create index consumer_groups_metadata_since on queen.consumer_groups_metadata (since);

-- Whether the group has a subscription to this queue as a whole, beside one to its namespace or task. A pop need not
-- look for it again.
alter table queen.queue_groups add column subscribed boolean not null default false;
update queen.queue_groups g set subscribed = true
  from queen.queues q join queen.consumer_groups_metadata m on m.queue_name = q.name and m.partition_name = ''
 where q.id = g.queue_id and m.group_name = g.name;
