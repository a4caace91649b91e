-- queen.depth: how full each queue is.
--
-- stored: messages kept. depth: those of them that some group has yet to finish; this is what
-- max_queue_size limits. waiting: pushed inside transactions and not yet in a partition.
create view queen.depth as
select q.name as queue,
       (select coalesce(sum(l.next_offset - l.start_offset), 0)::bigint from queen.partition_lookup l
         where l.queue_id = q.id) as stored,
       queen.queue_depth(q.id) as depth,
       (select count(*) from queen.inbox i where i.queue_name = q.name) as waiting,
       q.max_queue_size
  from queen.queues q;
comment on view queen.depth is 'Messages stored and messages unfinished, per queue.';
