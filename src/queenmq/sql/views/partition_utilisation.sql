-- queen.partition_utilisation: how many partitions of each queue are at work.
--
-- leased and ready count partitions for which that is true of some group; idle ones have nothing
-- stored, leased or ready. The columns from queue_name on have the names of the original system's query; utilisation_pct, in both
-- spellings, is the share of leased partitions, null if there are no partitions.
create view queen.partition_utilisation as
select u.*, u.queue as queue_name, u.partitions as total_partitions, u.leased as leased_partitions,
       round(100.0 * u.leased / nullif(u.partitions, 0), 2) as utilisation_pct,
       round(100.0 * u.leased / nullif(u.partitions, 0), 2) as utilization_pct
  from (select q.name as queue, count(l.partition_id) as partitions,
               count(*) filter (where l.next_offset > l.start_offset) as with_messages,
               count(*) filter (where c.leased) as leased,
               count(*) filter (where c.ready) as ready,
               count(*) filter (where l.next_offset = l.start_offset and not c.leased and not c.ready) as idle
          from queen.queues q
          left join queen.partition_lookup l on l.queue_id = q.id
          left join lateral (
              select coalesce(bool_or(c.lease_id is not null and c.ready_at > clock_timestamp()), false) as leased,
                     coalesce(bool_or(c.ready_at <= clock_timestamp()), false) as ready
                from queen.partition_consumers c where c.partition_id = l.partition_id) as c on l.partition_id is not null
         group by q.name) as u;
comment on view queen.partition_utilisation is 'Partitions per queue: with messages, leased, ready, idle.';
