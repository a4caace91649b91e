-- queen.hand_out_plain: lease what is ready and has nothing special about it, for many groups at once.
--
-- Mostly a partition that is ready has messages that never failed, lapsed or were done out of order, in
-- a queue without delays and limits of age. For these two short statements serve all requests of a call,
-- of however many groups: to begin the long way costs as much as ten rows, for each group.
--
-- p_firsts[r] is the first request of the same kind as r, and p_asks[k] that of kind k. Per target: its
-- kind, the group and its queue, the partition if one is named, and whether it is for this function.
--
-- "All is read" may only be said while nobody can push: see queen.hand_out.
--
-- Locks:   partition_consumers rows, skipping locked ones; then lookup rows of auto-acked partitions,
--          shared, never waiting.
-- Returns: one row per partition that was claimed, with the request that it was claimed for. Where
--          from_offset is null it has to go the long way, and is locked until then.
create function queen.hand_out_plain(
    p_firsts         int[],
    p_asks           int[],
    p_kinds          int[],
    p_group_ids      int[],
    p_queue_ids      int[],
    p_partition_ids  bigint[],
    p_plains         boolean[],
    p_batches        int[],
    p_lease_seconds  double precision[],
    p_auto_acks      boolean[],
    p_lease_ids      uuid[],
    p_ready_sinces   timestamptz[],
    p_now            timestamptz,
    p_bytes_max      bigint    -- most bytes of messages for one request; null: no limit
) returns table (
    request int, group_id int, queue_name text, partition_id bigint, partition_name text, lease_id uuid,
    from_offset bigint, to_offset bigint, more boolean, ready_at timestamptz, first_ready_at timestamptz
)
language plpgsql as $$
#variable_conflict use_column
declare
    v_ask       int;
    v_claimed   record;
    v_targets   int[];            -- per claimed row: its target, partition, place, request, longest ready of its kind
    v_ids       bigint[];
    v_places    tid[];
    v_requests  int[];
    v_oldest    timestamptz[];
    v_quiet     bigint[];
    v_out       bigint[] := '{}';    -- those that went out
    v_number    bigint;
begin
    if cardinality(p_kinds) = 1 then
        v_ask := p_asks[p_kinds[1]];
        v_requests := array_positions(p_firsts, v_ask);
        select * into v_claimed from queen.claim_partitions(
            p_group_ids[1], p_partition_ids[1], coalesce(p_ready_sinces[v_ask], '-infinity'), cardinality(v_requests), p_now);
        v_ids := v_claimed.partition_ids;
        v_places := v_claimed.places;
        v_requests := v_requests[: cardinality(v_ids)];
        v_targets := array_fill(1, array[coalesce(cardinality(v_ids), 0)]);
        v_oldest := array_fill(v_claimed.first_ready_at, array[coalesce(cardinality(v_ids), 0)]);
    else
        select array_agg(c.target::int), array_agg(c.partition_id), array_agg(c.place), array_agg(c.request), array_agg(c.first_ready_at)
          into v_targets, v_ids, v_places, v_requests, v_oldest
          from (select k.n as target, c.partition_id, c.place, c.ready_at as first_ready_at, p_asks[k.kind] as request
                  from unnest(p_kinds, p_group_ids, p_partition_ids, p_plains) with ordinality as k (kind, group_id, partition_id, plain, n)
                 cross join lateral (
                     select c.partition_id, c.ctid as place, c.ready_at from queen.partition_consumers c
                      where (c.partition_id, c.group_id) >= (k.partition_id, k.group_id)
                        and (c.partition_id, c.group_id) <= (k.partition_id, k.group_id) and c.ready_at <= p_now
                      order by c.partition_id desc, c.group_id desc limit 1    -- the newest version first
                        for update skip locked) as c
                 where k.plain and k.partition_id is not null
                union all    -- who named a partition comes first: it has no other
                select k.n, c.partition_id, c.place, h.ready_at,
                       (array_positions(p_firsts, p_asks[k.kind]))[row_number() over (partition by k.n order by c.ready_at)]
                  from unnest(p_kinds, p_group_ids, p_partition_ids, p_plains) with ordinality as k (kind, group_id, partition_id, plain, n)
                 cross join lateral (
                     select c.partition_id, c.ctid as place, c.ready_at from queen.partition_consumers c
                      where c.group_id = k.group_id and c.ready_at between coalesce(p_ready_sinces[p_asks[k.kind]], '-infinity') and p_now
                      order by c.ready_at limit cardinality(array_positions(p_firsts, p_asks[k.kind]))
                        for update skip locked) as c
                 cross join lateral (    -- also if it is locked: see queen.claim_partitions
                     select h.ready_at from queen.partition_consumers h
                      where h.group_id = k.group_id and h.ready_at between coalesce(p_ready_sinces[p_asks[k.kind]], '-infinity') and p_now
                      order by h.ready_at limit 1) as h
                 where k.plain and k.partition_id is null) as c;
    end if;
    if v_ids is null then
        return;
    end if;

    if true = any (p_auto_acks) then
        select array_agg(l.partition_id) into v_quiet
          from unnest(v_ids) as k (id)
         cross join lateral (select l.partition_id from queen.partition_lookup l where l.partition_id between k.id and k.id
                              order by l.partition_id desc limit 1 for share skip locked) as l;
    end if;

    for v_number, request, group_id, queue_name, partition_id, partition_name, lease_id, from_offset, to_offset, more, ready_at,
        first_ready_at in
        update queen.partition_consumers c
           set last_served_at = p_now, nacked = '{}',
               lease_id   = case when h.auto_ack then null else p_lease_ids[h.request] end,
               lease_from = case when h.auto_ack then null else c.committed end,
               lease_to   = case when h.auto_ack then null else h.reached end,
               committed  = case when h.auto_ack then h.reached else c.committed end,
               completed  = c.completed + case when h.auto_ack then h.reached - h.committed else 0 end,
               ready_at   = case when not h.auto_ack
                                 then p_now + make_interval(secs => coalesce(p_lease_seconds[h.request], h.lease_seconds))
                                 when h.reached >= h.next_offset and c.partition_id = any (v_quiet) then null
                                 else p_now end
          from (select k.n, k.place, k.request, k.oldest, p_auto_acks[k.request] as auto_ack, c.committed, l.next_offset,
                       r.reached, r.reached < w.reached as more, q.name as queue_name, q.lease_seconds, p.name as partition_name
                  from unnest(v_targets, v_ids, v_places, v_requests, v_oldest) with ordinality as k (target, id, place, request, oldest, n)
                  -- offset 0: row by row, whatever the planner believes about the size of the table.
                 cross join lateral (select c.committed from queen.partition_consumers c
                                      where c.ctid = k.place and c.lease_id is null
                                        and c.retries is null and c.lapses is null and c.starts_at is null and isempty(c.acked) offset 0) as c
                 cross join lateral (select l.next_offset, l.message_bytes from queen.partition_lookup l    -- the newest version first
                                      where l.partition_id between k.id and k.id
                                      order by l.partition_id desc limit 1) as l
                 cross join lateral (select least(l.next_offset, c.committed + p_batches[k.request]) as reached) as w
                 cross join lateral (select case when w.reached - c.committed > 1    -- one message goes out in any case
                                                      and queen.bytes_bound(w.reached - c.committed, l.message_bytes) > p_bytes_max
                                                 then (queen.fit_bytes(k.id, c.committed, w.reached, p_bytes_max)).to_offset
                                                 else w.reached end as reached offset 0) as r
                 cross join lateral (select q.name, q.lease_seconds from queen.queues q where q.id = p_queue_ids[k.target] offset 0) as q
                 cross join lateral (select p.name from queen.partitions p where p.id = k.id offset 0) as p
                 where l.next_offset > c.committed) as h
         where c.ctid = h.place    -- locked since it was claimed: it has not moved
        returning h.n, h.request, c.group_id, h.queue_name, c.partition_id, h.partition_name, c.lease_id, h.committed, h.reached,
                  h.more, c.ready_at, h.oldest
    loop
        v_out := v_out || v_number;
        return next;
    end loop;

    if cardinality(v_out) < cardinality(v_ids) then
        return query
        select k.request, p_group_ids[k.target], null::text, k.id, null::text, null::uuid, null::bigint, null::bigint,
               null::boolean, null::timestamptz, k.oldest
          from unnest(v_targets, v_ids, v_requests, v_oldest) with ordinality as k (target, id, request, oldest, n)
         where k.n <> all (v_out);
    end if;
end $$;
comment on function queen.hand_out_plain is 'Lease ready partitions that have nothing special, of many groups at once.';
