-- queen.collect_stats: write down each queue's totals for this minute.
--
-- Called again within the minute it replaces the row. Rows older than 30 days are removed. The totals
-- are those of the partitions that exist: when idle ones are removed they shrink, so a rate is a
-- difference that is not below 0.
create function queen.collect_stats(p_now timestamptz default clock_timestamp()) returns void
language sql
set jit = off
as $$
    delete from queen.stats where minute < p_now - interval '30 days';
    insert into queen.stats (minute, queue_id, partitions, pushed, stored, completed, dead_lettered, expired)
    select date_trunc('minute', p_now), q.id, l.partitions, l.pushed, l.stored, c.completed, c.dead_lettered, c.expired
      from queen.queues q
     cross join lateral (
         select count(*) as partitions, coalesce(sum(l.next_offset), 0) as pushed,
                coalesce(sum(l.next_offset - l.start_offset), 0) as stored
           from queen.partition_lookup l where l.queue_id = q.id) as l
     cross join lateral (
         select coalesce(sum(c.completed), 0) as completed, coalesce(sum(c.dead_lettered), 0) as dead_lettered,
                coalesce(sum(c.expired), 0) as expired
           from queen.partition_lookup l
           join queen.partition_consumers c on c.partition_id = l.partition_id
          where l.queue_id = q.id) as c
    on conflict (queue_id, minute) do update
       set partitions = excluded.partitions, pushed = excluded.pushed, stored = excluded.stored,
           completed = excluded.completed, dead_lettered = excluded.dead_lettered, expired = excluded.expired;
$$;
comment on function queen.collect_stats is 'Record the totals of every queue for the current minute.';
