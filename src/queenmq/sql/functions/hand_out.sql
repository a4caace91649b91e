-- queen.hand_out: lease claimed partitions to requests, as far as each has something to deliver.
--
-- p_requests[i] gets p_partition_ids[i], whose row is at p_places[i]; p_left[r] is how many messages
-- request r may still get, in the order of its partitions. Past the retry limit of lapsed leases the
-- head goes out alone: see queen.give_up. A partition that is still in its window, or whose next
-- message is not due, has nothing to deliver; nor have those in p_withheld.
--
-- Where an auto-acking request leaves no lease behind, "all is read" may only be said while nobody
-- can push: the lookup row is tried, and a partition being written right now stays ready.
--
-- Lookup rows are found backwards: of the versions that an old snapshot keeps, the newest comes last.
--
-- p_room[r] is how many bytes of messages request r may still get; null: no limit. The lease ends where they end, and a
-- further partition of the request that does not fit is not leased. A request that has got nothing yet gets one
-- message, however large it is. more says that a request was cut short for this reason. If the request had been served
-- before, and gets nothing now, a row without a partition says it.
--
-- Locks:   lookup rows of auto-acked partitions, shared, never waiting. The consumer rows are locked.
-- Returns: one row per partition that went out; the others are as they were.
create function queen.hand_out(
    p_group_id       int,
    p_queue_id       int,
    p_partition_ids  bigint[],
    p_places         tid[],
    p_withheld       bigint[],
    p_requests       int[],
    p_left           int[],
    p_room           bigint[],
    p_served         boolean[],    -- per request: it has got something
    p_lease_ids      uuid[],
    p_lease_seconds  double precision[],
    p_auto_acks      boolean[],
    p_now            timestamptz
) returns table (
    request int, partition_id bigint, lease_id uuid, messages bigint, bytes bigint, more boolean,
    from_offset bigint, to_offset bigint, done int8multirange, retries jsonb, ready_at timestamptz
)
language plpgsql as $$
#variable_conflict use_column
declare
    v_queue  queen.queues;
    v_quiet  bigint[];
begin
    select q.* into v_queue from queen.queues q where q.id = p_queue_id;
    if true = any (p_auto_acks) then
        select array_agg(l.partition_id) into v_quiet
          from unnest(p_partition_ids) as k (id)
         cross join lateral (select l.partition_id from queen.partition_lookup l where l.partition_id between k.id and k.id
                              order by l.partition_id desc limit 1 for share skip locked) as l;
    end if;

    return query
    with held as materialized (    -- where a delay ends is asked once
        select k.place, c.partition_id, c.committed, c.acked, c.retries, c.lapses, c.lease_id is not null as lapsed,
               k.request, k.n, p_auto_acks[k.request] as auto_ack, l.next_offset, l.message_bytes,
               case when c.partition_id = any (p_withheld)
                         or (v_queue.window_buffer_seconds > 0
                             and l.last_message_at + make_interval(secs => v_queue.window_buffer_seconds) > p_now)
                    then c.committed
                    when v_queue.delayed_processing_seconds > 0
                    then queen.offset_at(c.partition_id, p_now + interval '1 microsecond'
                                         - make_interval(secs => v_queue.delayed_processing_seconds))
                    else l.next_offset end as visible_to
          from unnest(p_partition_ids, p_places, p_requests) with ordinality as k (id, place, request, n)
          -- offset 0: row by row, whatever the planner believes about the size of the table.
         cross join lateral (select c.* from queen.partition_consumers c where c.ctid = k.place offset 0) as c
         cross join lateral (select l.* from queen.partition_lookup l where l.partition_id between k.id and k.id
                              order by l.partition_id desc limit 1) as l
    ), sized as (
        select h.*, case when h.lapsed and queen.count_lapses(h.lapses, h.committed) >= v_queue.retry_limit then least(1, a.n) else a.n end as available
          from held h
         cross join lateral (
             -- Not below 0, as when a delay grew: it would count as room for the request's other partitions.
             select greatest(0, h.visible_to - h.committed) - case when isempty(h.acked) then 0 else queen.multirange_size(
                        h.acked * int8multirange(int8range(h.committed, greatest(h.committed, h.visible_to)))) end as n) as a
    ), dealt as (
        select z.*, least(z.available, p_left[z.request] + z.available
                          - sum(z.available) over (partition by z.request order by z.n))::bigint as messages
          from sized z
    ), ranged as (
        select d.*, r.reached, b.bytes, sum(b.bytes) over (partition by d.request) > p_room[d.request] as crowded
          from dealt d
         cross join lateral (
             select case when isempty(d.acked) then d.committed + d.messages
                         else queen.reach(d.committed, d.messages, d.visible_to, d.acked) end as reached) as r
         cross join lateral (select queen.bytes_bound(r.reached - d.committed, d.message_bytes) as bytes) as b
         where d.messages > 0
    ), fitted as materialized (    -- sizes are read once, and only where a request could get too much
        select g.place, g.request, g.n, g.partition_id, g.committed, g.acked, g.retries, g.lapsed, g.auto_ack, g.next_offset,
               coalesce(f.to_offset, g.reached) as reached, f.to_offset < g.reached as cut, coalesce(f.bytes, g.bytes) as bytes,
               case when f.to_offset < g.reached then null else g.messages end as messages,
               coalesce(sum(f.bytes) over (partition by g.request order by g.n) > p_room[g.request]
                        and (p_served[g.request] or row_number() over (partition by g.request order by g.n) > 1), false) as left_out
          from ranged g
          left join lateral (select f.* from queen.fit_bytes(g.partition_id, g.committed, g.reached, p_room[g.request]) as f
                              where g.crowded offset 0) as f on true
    ), taken as (
        select f.*, case when isempty(f.acked) then f.reached else (
                   select m.committed from queen.advance(f.reached, f.acked) as m) end as passed,
               coalesce(f.messages, f.reached - f.committed - queen.multirange_size(
                   f.acked * int8multirange(int8range(f.committed, f.reached)))) as count,
               coalesce(f.cut or bool_or(f.left_out) over (partition by f.request), false) as more
          from fitted f
    ), leased as (
        update queen.partition_consumers c
           set last_served_at = p_now, nacked = '{}',
               lapses     = case when c.lapses is null and not r.lapsed then null
                                 when r.auto_ack then queen.keep_lapses(queen.add_lapse(
                                     c.lapses, c.lease_from, c.lease_to, c.committed, c.acked + c.nacked), r.passed, '{}')
                                 else queen.add_lapse(c.lapses, c.lease_from, c.lease_to, c.committed, c.acked + c.nacked) end,
               lease_id   = case when r.auto_ack then null else p_lease_ids[r.request] end,
               lease_from = case when r.auto_ack then null else r.committed end,
               lease_to   = case when r.auto_ack then null else r.reached end,
               committed  = case when r.auto_ack then r.passed else c.committed end,
               acked      = case when r.auto_ack and not isempty(c.acked)
                                 then c.acked - int8multirange(int8range(null, r.passed)) else c.acked end,
               retries    = case when r.auto_ack and c.retries is not null
                                 then queen.keep_retries(c.retries, r.passed, '{}') else c.retries end,
               completed  = c.completed + case when r.auto_ack then r.count else 0 end,
               ready_at   = case when not r.auto_ack
                                 then p_now + make_interval(secs => coalesce(p_lease_seconds[r.request], v_queue.lease_seconds))
                                 when r.passed >= r.next_offset and c.partition_id = any (v_quiet) then null
                                 when v_queue.delayed_processing_seconds + v_queue.window_buffer_seconds = 0 then p_now
                                 when c.partition_id = any (v_quiet)
                                 then queen.ready_after(c.partition_id, r.passed, v_queue.delayed_processing_seconds,
                                                        v_queue.window_buffer_seconds, p_now)
                                 else p_now end
          from taken r
         where not r.left_out and c.ctid = r.place    -- locked since it was claimed: it has not moved
        returning r.request, r.partition_id, c.lease_id, r.count as messages, r.bytes, r.more, r.committed, r.reached, r.acked,
                  queen.retry_counts(c.lapses, r.retries, r.committed, r.reached),
                  c.ready_at
    )
    select l.* from leased l
    union all
    select t.request, null, null, 0, 0, true, null, null, null, null, null
      from (select distinct t.request from taken t where t.left_out and p_served[t.request]) as t;
end $$;
comment on function queen.hand_out is 'Lease claimed partitions to requests; answers offset ranges.';
