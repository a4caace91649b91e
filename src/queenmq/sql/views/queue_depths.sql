-- queen.queue_depths: how many more messages each queue takes.
--
-- current_depth: messages that some group has yet to finish; max_queue_size limits this number.
-- remaining_capacity: how many more fit; null if the queue has no limit.
create view queen.queue_depths as
select q.name as queue_name,
       d.current_depth,
       q.max_queue_size,
       case when q.max_queue_size > 0 then greatest(q.max_queue_size - d.current_depth, 0) end as remaining_capacity
  from queen.queues q
 cross join lateral (select queen.queue_depth(q.id) as current_depth offset 0) as d;
comment on view queen.queue_depths is 'Unfinished messages of each queue, its limit, and how many more it takes.';
