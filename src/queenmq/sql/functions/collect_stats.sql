-- queen.collect_stats: write down each queue's totals for this minute.
--
-- Called again within the minute it replaces the row. Rows older than 30 days are removed. The totals
-- are those of the partitions that exist: when idle ones are removed they shrink, so a rate is a
-- difference that is not below 0.
--
-- Locks:   the rows of this minute, in queue_id order; old rows only if nobody else has locked them.
create function queen.collect_stats(p_now timestamptz default clock_timestamp()) returns void
language sql security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
    insert into queen.stats (minute, queue_id, partitions, pushed, stored, completed, dead_lettered, expired, pending,
                             leased, retrying, dead_letters)
    select date_trunc('minute', p_now), q.id, coalesce(t.partitions, 0), coalesce(t.pushed, 0), coalesce(t.stored, 0),
           coalesce(t.completed, 0), coalesce(t.dead_lettered, 0), coalesce(t.expired, 0), coalesce(t.pending, 0),
           coalesce(t.leased, 0), coalesce(t.retrying, 0),
           (select count(*) from queen.dead_letters d where d.queue_id = q.id)
      from queen.queues q
      left join (select p.queue_id, count(*) as partitions, sum(p.pushed) as pushed, sum(p.stored) as stored,
                        sum(p.completed) as completed, sum(p.dead_lettered) as dead_lettered, sum(p.expired) as expired,
                        sum(p.pending) as pending, sum(p.leased) as leased, sum(p.retrying) as retrying
                   from queen.partition_totals p group by p.queue_id) as t on t.queue_id = q.id
     order by q.id
    on conflict (queue_id, minute) do update
       set partitions = excluded.partitions, pushed = excluded.pushed, stored = excluded.stored,
           completed = excluded.completed, dead_lettered = excluded.dead_lettered, expired = excluded.expired,
           pending = excluded.pending, leased = excluded.leased, retrying = excluded.retrying,
           dead_letters = excluded.dead_letters;
    delete from queen.stats
     where ctid = any (array(select ctid from queen.stats where minute < p_now - interval '30 days' for update skip locked));
$$;
comment on function queen.collect_stats is 'Record the totals of every queue for the current minute.';
