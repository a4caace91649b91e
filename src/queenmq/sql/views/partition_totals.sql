-- queen.partition_totals: each partition's messages by what became of them.
--
-- stored = pending + leased + what every group has finished. A message is pending until the slowest
-- group has finished it; where no group has reached the partition, everything stored is. retrying ones have failed before
-- and are among the pending or leased ones. completed, dead_lettered and expired are counts of the groups together.
create view queen.partition_totals as
select t.queue_id, t.partition_id, t.pushed, t.stored, t.undone - least(t.leased, t.undone) as pending,
       least(t.leased, t.undone) as leased, t.retrying, t.completed, t.dead_lettered, t.expired, t.last_message_at
  from (select l.queue_id, l.partition_id, l.next_offset as pushed, l.next_offset - l.start_offset as stored, l.last_message_at,
               coalesce(max(l.next_offset - c.committed - case when isempty(c.acked) then 0
                                                               else queen.multirange_size(c.acked) end),
                        l.next_offset - l.start_offset) as undone,
               coalesce(max(case when c.lease_id is null or c.ready_at <= clock_timestamp() then 0
                                 else queen.multirange_size(
                                      int8multirange(int8range(greatest(c.lease_from, c.committed),
                                                               greatest(c.lease_from, c.committed, c.lease_to)))
                                      - c.acked - c.nacked) end), 0) as leased,
               coalesce(max(case when c.retries is null then 0
                                 else (select count(*) from jsonb_each_text(c.retries) as r where r.value <> '0') end), 0)
                   as retrying,
               coalesce(sum(c.completed), 0)::bigint as completed, coalesce(sum(c.dead_lettered), 0)::bigint as dead_lettered,
               coalesce(sum(c.expired), 0)::bigint as expired
          from queen.partition_lookup l
          left join queen.partition_consumers c on c.partition_id = l.partition_id
         group by l.queue_id, l.partition_id, l.next_offset, l.start_offset, l.last_message_at) as t;
comment on view queen.partition_totals is 'Per partition: messages stored, pending, leased and retrying.';
