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
    p_lease_ids      uuid[],
    p_lease_seconds  double precision[],
    p_auto_acks      boolean[],
    p_now            timestamptz
) returns table (
    request int, partition_id bigint, lease_id uuid, messages bigint, from_offset bigint, to_offset bigint,
    done int8multirange, expiries int, retries jsonb, ready_at timestamptz
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
        select k.place, c.partition_id, c.committed, c.acked, c.expiries, c.retries, c.lease_id is not null as lapsed,
               k.request, k.n, p_auto_acks[k.request] as auto_ack, l.next_offset,
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
        select h.*, case when h.lapsed and h.expiries >= v_queue.retry_limit then least(1, a.n) else a.n end as available
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
        select d.*, r.reached, case when isempty(d.acked) then r.reached else (
                   select m.committed from queen.advance(r.reached, d.acked) as m) end as passed
          from dealt d
         cross join lateral (
             select case when isempty(d.acked) then d.committed + d.messages
                         else queen.reach(d.committed, d.messages, d.visible_to, d.acked) end as reached) as r
         where d.messages > 0
    )
    update queen.partition_consumers c
       set last_served_at = p_now, nacked = '{}',
           expiries   = case when r.auto_ack then 0 else c.expiries + r.lapsed::int end,
           lease_id   = case when r.auto_ack then null else p_lease_ids[r.request] end,
           lease_from = case when r.auto_ack then null else r.committed end,
           lease_to   = case when r.auto_ack then null else r.reached end,
           committed  = case when r.auto_ack then r.passed else c.committed end,
           acked      = case when r.auto_ack and not isempty(c.acked)
                             then c.acked - int8multirange(int8range(null, r.passed)) else c.acked end,
           retries    = case when r.auto_ack and c.retries is not null
                             then queen.keep_retries(c.retries, r.passed, '{}') else c.retries end,
           completed  = c.completed + case when r.auto_ack then r.messages else 0 end,
           ready_at   = case when not r.auto_ack
                             then p_now + make_interval(secs => coalesce(p_lease_seconds[r.request], v_queue.lease_seconds))
                             when r.passed >= r.next_offset and c.partition_id = any (v_quiet) then null
                             when v_queue.delayed_processing_seconds + v_queue.window_buffer_seconds = 0 then p_now
                             when c.partition_id = any (v_quiet)
                             then queen.ready_after(c.partition_id, r.passed, v_queue.delayed_processing_seconds,
                                                    v_queue.window_buffer_seconds, p_now)
                             else p_now end
      from ranged r
     where c.ctid = r.place    -- locked since it was claimed: it has not moved
    returning r.request, r.partition_id, c.lease_id, r.messages, r.committed, r.reached, r.acked, c.expiries, r.retries,
              c.ready_at;
end $$;
comment on function queen.hand_out is 'Lease claimed partitions to requests; answers offset ranges.';
