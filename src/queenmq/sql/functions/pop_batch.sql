-- queen.pop_batch: serve many pops with one call; each gets partitions of its own.
--
-- One array element is one request. A request takes the partitions that have been ready for
-- longest, leases them under its own lease id and is answered with offset ranges; done holds
-- what to leave out of a range. Every request gets one partition before any gets a second
-- (p_max_partitions), and p_batches is the request's total. With auto_ack the messages count as
-- completed at once and no lease remains. Nobody is promised to be served first for being first in a call.
--
-- p_bytes_max: a request gets so many bytes of messages at most (payloads and headers as they are stored), or one message.
-- What is beyond is not leased, and not completed by auto_ack; more says that there is something. It may say so in a row of
-- its own, without a partition.
--
-- ready_since: no partition that is ready now became so before this moment, unless a transaction
-- took more than a quarter of a second to commit it. Handed in with the next pop of the same kind, it keeps
-- the index scan from walking over entries that died but cannot be removed while an old snapshot
-- is held somewhere. Partitions that another pop has locked count as ready: that pop may leave them, or roll back.
-- Callers leave it out now and then (the engine: every second). It is null, and is not used, while
-- a group has partitions to reach: these become ready in the past (queen.place_at).
--
-- A group's first pops wait for each other. The second must not look with the time at which it came:
-- what the first has made ready, it made ready later.
--
-- Locks:   what queen.pop_targets needs, first; then partition_consumers rows, never waiting for
--          one (skip locked): whoever has it is being served.
-- Raises:  QN400 bad arguments, QN421 bad name, QN425 timestamp missing, QN430 another incarnation.
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
    p_modes           text[],                 -- null: a subscription that covers the request decides, or p_default_mode
    p_sinces          timestamptz[],
    p_ready_sinces    timestamptz[] default null,    -- skip what became ready earlier: see ready_since
    p_now             timestamptz default null,    -- the clock's, read again after all waiting
    p_lookback        interval default '0',    -- how far before now a subscription in mode new begins
    p_incarnation     text default null,    -- of p_ready_sinces, and of the segments that the caller has in memory
    p_default_mode    text default 'all',
    p_bytes_max       bigint default null    -- of messages for one request; null: no limit
) returns table (
    request int, group_id int, queue_name text, partition_id bigint, partition_name text, lease_id uuid,
    from_offset bigint, to_offset bigint, done int8multirange, retries jsonb, expires_at timestamptz,
    ready_since timestamptz, more boolean
)
language plpgsql
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    v_same      boolean := queen.check_incarnation(p_incarnation);
    v_now       timestamptz := coalesce(p_now, clock_timestamp());
    v_names     text;                  -- what a request asks for
    v_asked     text[];
    v_firsts    int[];                 -- per request: the first one of its kind
    v_asks      int[] := '{}';         -- the first request of each kind
    v_ask       int;
    v_found     record;
    v_kinds     int[];                 -- per target: its kind, group, queue, and partition if one is named
    v_groups    int[];
    v_queues    int[];
    v_ids       bigint[];
    v_plains    boolean[];             -- and whether hand_out_plain may serve it
    v_special   int[] := '{}';         -- the first requests of kinds of which it left something
    v_walking   int[] := '{}';         -- the first requests of kinds of which a group had partitions to reach
    v_single    boolean;               -- no request wants more than one partition
    v_turns     int[];                 -- the targets of a kind, in the order in which they are taken from
    v_oldest    timestamptz;           -- the longest ready partition of several targets
    v_turn      int;
    v_left      int[] := p_batches;    -- messages each request may still get
    v_room      bigint[];              -- and bytes
    v_served    boolean[];             -- requests that got something
    v_slots     int[];                 -- requests in the order in which they get partitions
    v_used      int;
    v_queue     record;
    v_since     timestamptz;           -- where the scan of ready partitions begins
    v_claimed   record;
    v_places    tid[];                 -- where the claimed rows are
    v_judged    boolean;               -- some of what is claimed may have been given up
    v_stale     bigint[];              -- claimed, with more to give up than one call should
    v_empty     bigint[];
    v_rested    bigint[];
    v_out       record;
begin
    if array_position(p_batches, null) is not null or array_position(p_max_partitions, null) is not null
       or cardinality(p_batches) <> cardinality(p_max_partitions) or 1 > any (p_batches) or 1 > any (p_max_partitions)
       or 0 >= any (p_lease_seconds) or 604800 < any (p_lease_seconds) then
        raise exception 'batch and max partitions are at least 1, lease seconds between 0 and 604800' using errcode = 'QN400';
    end if;

    -- Expressions cost a tenth of a query, and pops that come together mostly ask for the same.
    if cardinality(p_queues) > 0
       and array_remove(p_queues, p_queues[1]) = '{}' and array_remove(p_partitions, p_partitions[1]) = '{}'
       and array_remove(p_namespaces, p_namespaces[1]) = '{}' and array_remove(p_tasks, p_tasks[1]) = '{}'
       and array_remove(p_groups, p_groups[1]) = '{}' then
        v_firsts := array_fill(1, array[cardinality(p_queues)]);
        v_asks := '{1}';
    else
        for i in 1 .. cardinality(p_queues) loop
            v_names := row(p_queues[i], p_partitions[i], p_namespaces[i], p_tasks[i], p_groups[i])::text;
            v_firsts[i] := coalesce(array_position(v_asked, v_names), i);
            v_asked[i] := v_names;
            if v_firsts[i] = i then
                v_asks := v_asks || i;
            end if;
        end loop;
    end if;
    -- Groups that have reached all there is of a queue: most pops.
    select coalesce(array_agg(a.place), '{}'), coalesce(array_agg(g.id), '{}'), coalesce(array_agg(g.queue_id), '{}'),
           coalesce(array_agg(null::bigint), '{}'), coalesce(array_agg(g.plain), '{}')
      into v_kinds, v_groups, v_queues, v_ids, v_plains
      from unnest(v_asks) with ordinality as a (ask, place)
     cross join lateral (
         select g.id, g.queue_id, q.delayed_processing_seconds + q.window_buffer_seconds + q.age_limit_seconds = 0 as plain
           from queen.queues q join queen.queue_groups g on g.queue_id = q.id and g.name = p_groups[a.ask]
          where q.name = p_queues[a.ask] and p_partitions[a.ask] is null and g.queue_wide and g.complete
            and (g.subscribed or p_modes[a.ask] is null) and not q.paused and not g.paused offset 0) as g;
    if cardinality(v_kinds) < cardinality(v_asks) then
        p_modes := array(select queen.subscription_mode(m.mode) from unnest(p_modes) with ordinality as m (mode, n) order by m.n);
        for v_found in
            select array_position(v_asks, t.ask) as place, t.*
              from queen.pop_targets(
                       array(select a.ask from unnest(v_asks) with ordinality as a (ask, place) where a.place <> all (v_kinds)),
                       p_queues, p_partitions, p_namespaces, p_tasks, p_groups, p_modes,
                       array(select coalesce(s.since, case coalesce(s.mode, p_default_mode) when 'new' then v_now - p_lookback end)
                               from unnest(p_sinces, p_modes) with ordinality as s (since, mode, n) order by s.n),
                       v_now, p_default_mode) as t
        loop
            if v_found.walking then
                v_walking := v_walking || v_found.ask;
                p_ready_sinces[v_found.ask] := null;
            end if;
            v_kinds := v_kinds || v_found.place;
            v_groups := v_groups || v_found.group_id;
            v_queues := v_queues || v_found.queue_id;
            v_ids := v_ids || v_found.partition_id;
            v_plains := v_plains || v_found.plain;
        end loop;
    end if;

    v_now := coalesce(p_now, clock_timestamp());
    v_single := 1 = all (p_max_partitions);
    if v_single and true = any (v_plains) then
        for v_out in
            select * from queen.hand_out_plain(v_firsts, v_asks, v_kinds, v_groups, v_queues, v_ids, v_plains,
                                               p_batches, p_lease_seconds, p_auto_acks, p_lease_ids, p_ready_sinces, v_now,
                                               p_bytes_max)
        loop
            if v_out.from_offset is null then
                v_special := v_special || v_firsts[v_out.request];
                continue;
            end if;
            request := v_out.request;
            group_id := v_out.group_id;
            queue_name := v_out.queue_name;
            partition_id := v_out.partition_id;
            partition_name := v_out.partition_name;
            lease_id := v_out.lease_id;
            from_offset := v_out.from_offset;
            to_offset := v_out.to_offset;
            done := '{}';
            retries := null;
            expires_at := case when v_out.lease_id is not null then v_out.ready_at end;
            ready_since := case when v_firsts[request] <> all (v_walking)
                                then least(v_now - interval '250 milliseconds', v_out.first_ready_at) end;
            v_firsts[request] := 0;    -- served
            more := v_out.more;
            return next;
        end loop;
    end if;

    v_room := array_fill(p_bytes_max, array[cardinality(p_batches)]);
    v_served := array_fill(false, array[cardinality(p_batches)]);
    for i in 1 .. cardinality(v_asks) loop
        v_turns := array_positions(v_kinds, i);
        v_ask := v_asks[i];
        continue when v_turns = '{}' or (v_single and v_plains[v_turns[1]] and v_ask <> all (v_special));
        v_used := 0;
        v_since := coalesce(p_ready_sinces[v_ask], '-infinity');
        v_slots := array_positions(v_firsts, v_ask);
        if not v_single then    -- one partition for everybody, then a second one
            v_slots := array(select r.n from unnest(v_slots) as r (n) cross join generate_series(1, p_max_partitions[r.n]) as s (slot)
                              order by s.slot, r.n);
        end if;

        v_oldest := null;
        if cardinality(v_turns) > 1 then
            select array_agg(t.n order by q.priority desc, head.ready_at, v_groups[t.n]), min(head.ready_at)
              into v_turns, v_oldest
              from unnest(v_turns) as t (n)
              join queen.queues q on q.id = v_queues[t.n]
              left join lateral (select c.ready_at from queen.partition_consumers c
                                  where c.group_id = v_groups[t.n] and c.ready_at between v_since and v_now
                                  order by c.ready_at limit 1) as head on true;
        end if;

        foreach v_turn in array coalesce(v_turns, '{}') loop
            exit when v_used >= cardinality(v_slots);
            select q.name, q.age_limit_seconds into v_queue from queen.queues q where q.id = v_queues[v_turn];
            continue when not found;    -- deleted meanwhile

            -- A partition may have been called ready and hold nothing to deliver; whoever got it is
            -- served from the next ones, a few times.
            for v_round in 1 .. 10 loop
                exit when v_used >= cardinality(v_slots);
                select * into v_claimed from queen.claim_partitions(
                    v_groups[v_turn], v_ids[v_turn], v_since, cardinality(v_slots) - v_used, v_now);
                exit when v_claimed.partition_ids is null;

                v_stale := null;
                v_places := v_claimed.places;
                v_judged := v_claimed.lapsed or v_claimed.early or v_queue.age_limit_seconds > 0;
                if v_judged then
                    v_stale := queen.give_up(v_groups[v_turn], v_claimed.partition_ids, v_now);
                    select array_agg(c.place order by k.n) into v_places    -- what was given up has moved its rows
                      from unnest(v_claimed.partition_ids) with ordinality as k (id, n)
                     cross join lateral (select c.ctid as place from queen.partition_consumers c
                                          where c.partition_id = k.id and c.group_id between v_groups[v_turn] and v_groups[v_turn]
                                          order by c.group_id desc limit 1) as c;
                end if;

                v_empty := v_claimed.partition_ids;
                for v_out in
                    select h.*, p.name
                      from queen.hand_out(v_groups[v_turn], v_queues[v_turn], v_claimed.partition_ids, v_places,
                                          v_stale, v_slots[v_used + 1 :], v_left, v_room, v_served, p_lease_ids, p_lease_seconds, p_auto_acks,
                                          v_now) as h
                      left join lateral (select p.name from queen.partitions p where p.id = h.partition_id offset 0) as p on true
                loop
                    v_left[v_out.request] := case when v_out.more then 0 else v_left[v_out.request] - v_out.messages end;
                    v_room[v_out.request] := v_room[v_out.request] - v_out.bytes;
                    v_served[v_out.request] := true;
                    v_empty := array_remove(v_empty, v_out.partition_id);
                    request := v_out.request;
                    group_id := v_groups[v_turn];
                    queue_name := v_queue.name;
                    partition_id := v_out.partition_id;
                    partition_name := v_out.name;
                    lease_id := v_out.lease_id;
                    from_offset := v_out.from_offset;
                    to_offset := v_out.to_offset;
                    done := v_out.done;
                    retries := v_out.retries;
                    expires_at := case when v_out.lease_id is not null then v_out.ready_at end;
                    -- Not later: what was claimed last may go out while an older one stays, for want of room.
                    ready_since := case when v_ask <> all (v_walking) then
                        least(v_now - interval '250 milliseconds', v_claimed.first_ready_at, v_oldest) end;
                    more := v_out.more;
                    return next;
                end loop;
                v_used := v_used + cardinality(v_claimed.partition_ids);
                exit when v_empty = '{}';
                v_empty := array(    -- not those for which their request had no room left, unless some of it was given up
                    select k.id
                      from (select k.id, k.request, k.n, max(k.n) filter (where k.id <> all (v_empty)) over (partition by k.request) as last
                              from unnest(v_claimed.partition_ids, v_slots[v_used - cardinality(v_claimed.partition_ids) + 1 : v_used])
                                   with ordinality as k (id, request, n)) as k
                     where k.id = any (v_empty) and (v_left[k.request] > 0 or k.n < k.last or v_judged));
                exit when v_empty = '{}';
                v_rested := queen.settle(v_groups[v_turn], v_empty, v_now);
                exit when v_rested = '{}';
                v_slots := v_slots || array(select v_slots[v_used - cardinality(v_claimed.partition_ids) + k.n]
                                              from unnest(v_claimed.partition_ids) with ordinality as k (id, n)
                                             where k.id = any (v_rested) order by k.n);
            end loop;
        end loop;
    end loop;
end $$;
comment on function queen.pop_batch is 'Lease ready partitions for many requests at once; answers offset ranges.';
