-- queen.queue_totals: how many messages of queues are stored, pending, leased, retrying and dead.
--
-- Counted now, unless a queue has more partitions than p_partitions_max: then the totals are those
-- of the newest row in queen.stats, and counted_at says of when. A queue without such a row is counted
-- whatever its size.
create function queen.queue_totals(p_queue_ids int[], p_partitions_max int default 1000)
returns table (
    queue_id int, partitions bigint, stored bigint, pending bigint, leased bigint, retrying bigint, dead_letters bigint,
    counted_at timestamptz
)
language sql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
    select k.id, t.*
      from unnest(p_queue_ids) as k (id)
     cross join lateral (
         select count(*) > p_partitions_max as many
           from (select from queen.partition_lookup l where l.queue_id = k.id limit p_partitions_max + 1) as l) as m
      left join lateral (
          select s.* from queen.stats s where m.many and s.queue_id = k.id order by s.minute desc limit 1) as s on true
     cross join lateral (
         select s.partitions, s.stored, s.pending, s.leased, s.retrying, s.dead_letters, s.minute where s.minute is not null
         union all
         select count(*), coalesce(sum(p.stored), 0)::bigint, coalesce(sum(p.pending), 0)::bigint,
                coalesce(sum(p.leased), 0)::bigint, coalesce(sum(p.retrying), 0)::bigint,
                (select count(*) from queen.dead_letters d where d.queue_id = k.id), clock_timestamp()
           from queen.partition_totals p where p.queue_id = k.id
         having s.minute is null) as t
$$;
comment on function queen.queue_totals is 'Messages of queues by what became of them; of large queues as of the last minute.';
