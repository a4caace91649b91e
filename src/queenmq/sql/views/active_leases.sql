-- queen.active_leases: who holds what, and for how long.
--
-- The columns from queue_name on have the names of the original system's query: message_count is remaining, the messages of the
-- lease that are not answered yet.
create view queen.active_leases as
select l.*, l.queue as queue_name, l.partition as partition_name, l.group_name as consumer_group,
       l.expires_at as lease_expires_at, l.remaining as message_count, l.seconds_left as seconds_remaining
  from (select c.lease_id, q.name as queue, p.name as partition, g.name as group_name, c.lease_from as from_offset,
               c.lease_to as to_offset,
               queen.multirange_size(int8multirange(int8range(greatest(c.lease_from, c.committed),
                                                              greatest(c.lease_from, c.committed, c.lease_to)))
                                     - c.acked - c.nacked) as remaining,
               queen.count_lapses(c.lapses, c.committed) as expiries, c.ready_at as expires_at,
               extract(epoch from c.ready_at - n.now)::double precision as seconds_left
          from (select clock_timestamp() as now) as n
          join queen.partition_consumers c on c.lease_id is not null and c.ready_at > n.now
          join queen.queue_groups g on g.id = c.group_id
          join queen.partitions p on p.id = c.partition_id
          join queen.queues q on q.id = g.queue_id) as l;
comment on view queen.active_leases is 'Leases that have not expired.';
