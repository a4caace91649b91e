-- queen.lag: how far each group is behind, in messages and in seconds.
--
-- complete is false while a new group has not reached all partitions yet: there is more to come.
create view queen.lag as
select q.name as queue, g.name as group_name, count(*) filter (where b.messages > 0) as partitions_with_lag,
       coalesce(sum(b.messages), 0)::bigint as messages, coalesce(max(b.seconds), 0) as seconds,
       g.complete or not g.queue_wide as complete
  from queen.queue_groups g
  join queen.queues q on q.id = g.queue_id
  left join queen.lag_by_partition b on b.queue = q.name and b.group_name = g.name
 group by q.name, g.id;
comment on view queen.lag is 'Per queue and group: messages to go, and the age of the oldest.';
