-- queen.pop_batch: serve many pops with one call; each gets partitions of its own.
--
-- One array element is one request. A request takes the partitions that have been ready for
-- longest, leases them under its own lease id and is answered with offset ranges; done holds
-- what to leave out of a range. Every request gets one partition before any gets a second
-- (p_max_partitions), and p_batches is the request's total. With auto_ack the messages count as
-- completed at once and no lease remains.
--
-- ready_since: every partition that is ready now became so after this moment, unless a transaction
-- took more than two seconds to commit it. Handed in with the next pop of the same kind, it keeps
-- the index scan from walking over entries that died but cannot be removed while an old snapshot
-- is held somewhere. Callers leave it out now and then (the engine: every second).
--
-- Locks:   what queen.pop_targets needs, first; then partition_consumers rows, never waiting for
--          one (skip locked): whoever has it is being served.
-- Raises:  QN400 bad arguments, QN421 bad name, QN425 timestamp missing.
create function queen.pop_batch(
    p_queues          text[],
    p_partitions      text[],
    p_namespaces      text[],
    p_tasks           text[],
    p_groups          text[],
    p_batches         int[],
    p_max_partitions  int[],
    p_lease_seconds   double precision[],    -- null: the queue's
    p_auto_acks       boolean[],
    p_lease_ids       uuid[],
    p_modes           text[],
    p_sinces          timestamptz[],
    p_ready_sinces    timestamptz[] default null,    -- skip what became ready earlier: see ready_since
    p_now             timestamptz default clock_timestamp(),
    p_lookback        interval default '0'    -- how far before p_now a subscription in mode new begins
) returns table (
    request int, group_id int, queue_name text, partition_id bigint, partition_name text, lease_id uuid,
    from_offset bigint, to_offset bigint, done int8multirange, expiries int, retries jsonb, expires_at timestamptz,
    ready_since timestamptz
)
language plpgsql
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    v_asks      int[];                 -- the first request of each kind
    v_ask       int;
    v_targets   jsonb[] := '{}';
    v_left      int[] := p_batches;    -- messages each request may still get
    v_slots     int[];                 -- requests in the order in which they get partitions
    v_used      int;
    v_target    record;
    v_claimed   bigint[];
    v_since     timestamptz;           -- where the scan of ready partitions begins, and where it ended
    v_last      timestamptz;
    v_doubtful  boolean;
    v_quiet     bigint[];
    v_stale     bigint[];              -- claimed, with more to give up than one call should
    v_empty     bigint[];
    v_rested    int;
    v_row       record;
begin
    if exists (select from unnest(p_batches, p_max_partitions, p_lease_seconds) as r (b, m, s)
                where r.b is null or r.b < 1 or r.m is null or r.m < 1 or r.s <= 0 or r.s > 604800) then
        raise exception 'batch and max partitions are at least 1, lease seconds between 0 and 604800' using errcode = 'QN400';
    end if;

    select array_agg(a.n order by a.n) into v_asks
      from (select min(n)::int as n
              from unnest(p_queues, p_partitions, p_namespaces, p_tasks, p_groups) with ordinality as r (q, p, s, t, g, n)
             group by q, p, s, t, g) as a;
    for i in 1 .. cardinality(v_asks) loop
        v_ask := v_asks[i];
        v_targets[i] := (select jsonb_agg(t) from queen.pop_targets(
            p_queues[v_ask], p_partitions[v_ask], p_namespaces[v_ask], p_tasks[v_ask], p_groups[v_ask],
            p_modes[v_ask], coalesce(p_sinces[v_ask], case p_modes[v_ask] when 'new' then p_now - p_lookback end), p_now) as t);
    end loop;

    for i in 1 .. cardinality(v_asks) loop
        continue when v_targets[i] is null;
        v_ask := v_asks[i];
        v_used := 0;
        v_since := coalesce(p_ready_sinces[v_ask], '-infinity');
        select array_agg(r.n order by s.slot, r.n) into v_slots
          from unnest(p_queues, p_partitions, p_namespaces, p_tasks, p_groups, p_max_partitions)
               with ordinality as r (q, p, s, t, g, slots, n)
         cross join lateral generate_series(1, r.slots) as s (slot)
         where r.q is not distinct from p_queues[v_ask] and r.p is not distinct from p_partitions[v_ask]
           and r.s is not distinct from p_namespaces[v_ask] and r.t is not distinct from p_tasks[v_ask]
           and r.g = p_groups[v_ask];

        for v_target in
            select t.group_id, t.partition_id, q.name, q.lease_seconds, q.retry_limit, q.max_wait_seconds,
                   q.delayed_processing_seconds, q.window_buffer_seconds
              from jsonb_to_recordset(v_targets[i]) as t (group_id int, queue_id int, partition_id bigint)
              join queen.queues q on q.id = t.queue_id
              left join lateral (select c.ready_at from queen.partition_consumers c
                                  where c.group_id = t.group_id and c.ready_at between v_since and p_now
                                    and jsonb_array_length(v_targets[i]) > 1
                                  order by c.ready_at limit 1) as head on true
             order by q.priority desc, head.ready_at, t.group_id
        loop
            exit when v_used >= cardinality(v_slots);

            -- A partition may have been called ready and hold nothing to deliver; whoever got it is
            -- served from the next ones, a few times.
            for v_round in 1 .. 10 loop
                exit when v_used >= cardinality(v_slots);
                if v_target.partition_id is not null then
                    select array_agg(c.partition_id), bool_or(c.lapsed)
                      into v_claimed, v_doubtful
                      from (select c.partition_id, c.lease_id is not null as lapsed
                              from queen.partition_consumers c
                             where c.partition_id = v_target.partition_id and c.group_id = v_target.group_id
                               and c.ready_at <= p_now
                               for update skip locked) as c;
                else
                    select array_agg(c.partition_id), bool_or(c.lapsed), max(c.ready_at)
                      into v_claimed, v_doubtful, v_last
                      from (select c.partition_id, c.lease_id is not null as lapsed, c.ready_at
                              from queen.partition_consumers c
                             where c.group_id = v_target.group_id and c.ready_at between v_since and p_now
                             order by c.ready_at limit cardinality(v_slots) - v_used
                               for update skip locked) as c;
                end if;
                exit when v_claimed is null;

                v_stale := null;
                if v_doubtful or v_target.max_wait_seconds > 0 then
                    v_stale := queen.give_up(v_target.group_id, v_claimed, p_now);
                end if;

                -- Where no lease will remain, "all is read" may only be said while nobody can push.
                v_quiet := null;
                if true = any (p_auto_acks) then
                    select array_agg(l.partition_id) into v_quiet
                      from (select l.partition_id from queen.partition_lookup l
                             where l.partition_id = any (v_claimed) for share skip locked) as l;
                end if;

                v_empty := v_claimed;
                for v_row in
                    with held as (
                        select c.partition_id, c.committed, c.acked, c.expiries, c.retries, c.lease_id is not null as lapsed,
                               v_slots[v_used + k.n] as request, k.n,
                               case when c.partition_id = any (v_stale)
                                    then c.committed
                                    when v_target.window_buffer_seconds > 0
                                         and l.last_message_at + make_interval(secs => v_target.window_buffer_seconds) > p_now
                                    then c.committed
                                    when v_target.delayed_processing_seconds > 0
                                    then queen.offset_at(c.partition_id, p_now + interval '1 microsecond'
                                                         - make_interval(secs => v_target.delayed_processing_seconds))
                                    else l.next_offset end as visible_to
                          from unnest(v_claimed) with ordinality as k (id, n)
                          join queen.partition_consumers c on c.partition_id = k.id and c.group_id = v_target.group_id
                          join queen.partition_lookup l on l.partition_id = k.id
                    ), sized as (
                        select h.*,
                               case when h.lapsed and h.expiries >= v_target.retry_limit then least(1, a.n) else a.n end as available
                          from held h
                         cross join lateral (
                             select h.visible_to - h.committed - case when isempty(h.acked) then 0 else
                                 queen.multirange_size(h.acked * int8multirange(int8range(h.committed, greatest(h.committed, h.visible_to))))
                                 end as n) as a
                    ), dealt as (
                        select z.*, least(z.available, v_left[z.request] + z.available
                                          - sum(z.available) over (partition by z.request order by z.n))::bigint as messages
                          from sized z
                    ), ranged as (
                        select d.*, r.reached, case when isempty(d.acked) then r.reached else (
                                   select m.committed from queen.advance(r.reached, d.acked) as m) end as passed
                          from dealt d
                         cross join lateral (
                             select case when isempty(d.acked) then d.committed + d.messages
                                         else queen.reach(d.committed, d.messages, d.visible_to, d.acked) end as reached) as r
                    )
                    update queen.partition_consumers c
                       set last_served_at = p_now,
                           expiries = case when p_auto_acks[r.request] then 0 else c.expiries + r.lapsed::int end,
                           nacked = '{}',
                           lease_id = case when p_auto_acks[r.request] then null else p_lease_ids[r.request] end,
                           lease_from = case when p_auto_acks[r.request] then null else r.committed end,
                           lease_to = case when p_auto_acks[r.request] then null else r.reached end,
                           committed = case when p_auto_acks[r.request] then r.passed else c.committed end,
                           acked = case when p_auto_acks[r.request] and not isempty(c.acked)
                                        then c.acked - int8multirange(int8range(null, r.passed)) else c.acked end,
                           retries = case when p_auto_acks[r.request]
                                          then queen.keep_retries(c.retries, r.passed, '{}') else c.retries end,
                           completed = c.completed + case when p_auto_acks[r.request] then r.messages else 0 end,
                           ready_at = case when not p_auto_acks[r.request]
                                           then p_now + make_interval(secs => coalesce(p_lease_seconds[r.request], v_target.lease_seconds))
                                           when c.partition_id = any (v_quiet)
                                           then queen.ready_after(c.partition_id, r.passed, v_target.delayed_processing_seconds,
                                                                  v_target.window_buffer_seconds, p_now)
                                           else p_now end
                      from ranged r
                     where c.partition_id = r.partition_id and c.group_id = v_target.group_id and r.messages > 0
                    returning r.request, r.partition_id, r.n, r.messages, r.available, r.committed as from_offset, r.reached,
                              r.acked, c.expiries, r.retries, c.lease_id, c.ready_at
                loop
                    v_left[v_row.request] := v_left[v_row.request] - v_row.messages;
                    v_empty := array_remove(v_empty, v_row.partition_id);
                    request := v_row.request;
                    group_id := v_target.group_id;
                    queue_name := v_target.name;
                    partition_id := v_row.partition_id;
                    partition_name := (select p.name from queen.partitions p where p.id = v_row.partition_id);
                    lease_id := v_row.lease_id;
                    from_offset := v_row.from_offset;
                    to_offset := v_row.reached;
                    done := v_row.acked;
                    expiries := v_row.expiries;
                    retries := v_row.retries;
                    expires_at := case when v_row.lease_id is not null then v_row.ready_at end;
                    ready_since := least(p_now - interval '2 seconds',
                                         case when cardinality(v_claimed) = cardinality(v_slots) - v_used then v_last end);
                    return next;
                end loop;
                v_used := v_used + cardinality(v_claimed);
                exit when v_empty = '{}';
                v_rested := queen.settle(v_target.group_id, v_empty, p_now);
                exit when v_rested = 0;
                v_slots := v_slots || array(select v_slots[v_used - cardinality(v_claimed) + k.n]
                                              from unnest(v_claimed) with ordinality as k (id, n)
                                             where k.id = any (v_empty) order by k.n limit v_rested);
            end loop;
        end loop;
    end loop;
end $$;
comment on function queen.pop_batch is 'Lease ready partitions for many requests at once; answers offset ranges.';
