-- queen.ledger: the statement of account of every group in every partition it has reached.
--
-- pushed = skipped + completed + dead_lettered + expired + leased + pending. The counters are written
-- where things happen; leased and pending follow from offsets alone: so balanced says something.
create view queen.ledger as
select q.name as queue, p.name as partition, g.name as group_name, l.next_offset as pushed, c.origin as skipped,
       c.completed, c.dead_lettered, c.expired, n.leased, n.undone - n.leased as pending,
       l.next_offset = c.origin + c.completed + c.dead_lettered + c.expired + n.undone as balanced
  from queen.partition_consumers c
  join queen.partition_lookup l on l.partition_id = c.partition_id
  join queen.partitions p on p.id = c.partition_id
  join queen.queue_groups g on g.id = c.group_id
  join queen.queues q on q.id = l.queue_id
 cross join lateral (
     select int8multirange(int8range(c.committed, greatest(c.committed, l.next_offset))) - c.acked as undone) as u
 cross join lateral (
     select case when isempty(c.acked) then l.next_offset - c.committed else queen.multirange_size(u.undone) end as undone,
            case when c.lease_id is not null and c.ready_at > clock_timestamp()
                 then queen.multirange_size(u.undone * int8multirange(int8range(c.lease_from, c.lease_to)))
                 else 0 end as leased) as n;
comment on view queen.ledger is 'Per partition and group: what was pushed and what became of it.';
