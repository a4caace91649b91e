-- queen.has_pending_messages: would a pop get anything? Asked often, by those who wait.
--
-- One array element is one request, named as in queen.pop_batch. Pending means that a partition is
-- ready, or that the group has yet to reach one: then only a pop can tell. One index probe per
-- request and group; nothing is locked, nothing is written. An unknown queue has nothing pending, and neither has a
-- queue or a group that is paused.
--
-- Returns: next_ready_seconds, the time until the next lease expires or delay ends: 0 when pending,
--          null when only a push can change anything.
create function queen.has_pending_messages(
    p_queues      text[],
    p_partitions  text[],
    p_namespaces  text[],
    p_tasks       text[],
    p_groups      text[],
    p_now         timestamptz default clock_timestamp()
) returns table (item int, pending boolean, next_ready_seconds double precision)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
    return query
    select r.n::int, a.pending, case when a.pending then 0 else extract(epoch from a.ready_at - p_now)::double precision end
      from unnest(p_queues, p_partitions, p_namespaces, p_tasks, p_groups) with ordinality as r (q, p, s, t, g, n)
     cross join lateral (
         select coalesce(bool_or(x.unreached or x.ready_at <= p_now), false) as pending, min(x.ready_at) as ready_at
           from (select q.id from queen.queues q where q.name = r.q and not q.paused
                 union all
                 select q.id from queen.queues q
                  where not q.paused and r.q is null and (r.s is not null or r.t is not null)
                    and (r.s is null or q.namespace = r.s) and (r.t is null or q.task = r.t)) as q
           left join queen.queue_groups g on g.queue_id = q.id and g.name = r.g
          cross join lateral (
              select c.ready_at, c.group_id is null as unreached
                from queen.partitions p
                left join queen.partition_consumers c on c.partition_id = p.id and c.group_id = g.id
               where r.p is not null and p.queue_id = q.id and p.name = r.p
              union all
              select (select c.ready_at from queen.partition_consumers c
                       where c.group_id = g.id and c.ready_at is not null order by c.ready_at limit 1),
                     (g.complete and g.queue_wide) is not true
                     and exists (select from queen.partition_lookup l
                                  where l.queue_id = q.id
                                    and l.partition_id > case when g.queue_wide then g.reached_partition_id else 0 end)
               where r.p is null) as x
          where g.paused is not true) as a;
end $$;
comment on function queen.has_pending_messages(text[], text[], text[], text[], text[], timestamptz) is
    'Whether pops would find something, and when that may change.';

-- The same for one queue and group, for people who write SQL. p_partition: null or '*' for any partition.
create function queen.has_pending_messages(
    p_queue      text,
    p_partition  text,
    p_group      text,
    p_now        timestamptz default clock_timestamp()
) returns boolean
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    select pending from queen.has_pending_messages(array[p_queue], array[nullif(p_partition, '*')], array[null::text],
                                                   array[null::text], array[p_group], p_now)
$$;
comment on function queen.has_pending_messages(text, text, text, timestamptz) is
    'Whether a pop of one group would find something in a queue, or in one partition of it.';
