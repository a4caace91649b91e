-- queen.lag_by_partition: how far a group is behind, in each partition it has reached.
--
-- messages is a subtraction; seconds is the age of the oldest unfinished message, found by primary
-- key; 0 where all is read.
create view queen.lag_by_partition as
select q.name as queue, g.name as group_name, p.name as partition, c.partition_id, c.committed as "offset", l.next_offset,
       l.next_offset - c.committed - case when isempty(c.acked) then 0 else queen.multirange_size(c.acked) end as messages,
       case when c.committed < l.next_offset then coalesce(extract(epoch from clock_timestamp() - (
           select s.created_at from queen.segments s
            where s.partition_id = c.partition_id and s.first_offset <= c.committed
            order by s.first_offset desc limit 1)), 0) else 0 end::double precision as seconds
  from queen.partition_consumers c
  join queen.partition_lookup l on l.partition_id = c.partition_id
  join queen.queue_groups g on g.id = c.group_id
  join queen.partitions p on p.id = c.partition_id
  join queen.queues q on q.id = g.queue_id;
comment on view queen.lag_by_partition is 'Per group and partition: messages to go, and the age of the oldest.';
