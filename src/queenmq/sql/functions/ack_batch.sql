-- queen.ack_batch: say what became of leased messages.
--
-- One element of the first three arrays is one (partition, group, lease). Completed messages come
-- as ranges, p_range_acks[i] saying which element a range belongs to; the others one by one with
-- a status:
--   failed  delivered again, in order, after the retry delay (times retry_backoff for each failure before), until the retry limit;
--           then a dead letter (or expired, where the queue keeps none)
--   retry   delivered again at once, without counting as a failure
--   dlq     a dead letter at once
-- The cursor moves over what is contiguously done; what is done above it is remembered, so nothing
-- acknowledged comes back and nothing else is skipped. When every message of the lease has been
-- answered the lease ends.
--
-- Returns one row for each element, in any order: ack is its number.
-- accepted: the offsets of this call that belong to the lease. Others are the caller's mistake and
-- change nothing. held = false: the lease is gone and nothing was done; already tells whether
-- everything in the call had been acknowledged before (an ack repeated after a lost answer). more:
-- the lease ended and its partition has further messages.
--
-- Mostly a whole lease is completed, and nothing of it failed or was done out of order. That takes a
-- short statement: to begin the other one costs more than all the rest.
--
-- Locks:   lookup rows, shared, in partition_id order (a push in flight must be waited for before
--          "all is read" can be said); then the consumer rows in the same order.
-- Raises:  QN424 unknown status.
create function queen.ack_batch(
    p_partition_ids   bigint[],
    p_group_ids       int[],
    p_lease_ids       uuid[],
    p_range_acks      int[],
    p_range_froms     bigint[],
    p_range_tos       bigint[],
    p_message_acks    int[]    default '{}',
    p_message_offsets bigint[] default '{}',
    p_statuses        text[]   default '{}',
    p_errors          text[]   default '{}',
    p_now             timestamptz default clock_timestamp()
) returns table (
    ack int, held boolean, accepted int8multirange, dead int8multirange, released boolean, more boolean, already boolean,
    queue_name text
)
language plpgsql
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    v_status   text;
    v_done     int8multirange[];    -- per ack: what was completed, given up, given back
    v_dead     int8multirange[];
    v_back     int8multirange[];
    v_counts   jsonb[];             -- per ack: the new retry counts of failed messages
    v_none     int8multirange := '{}';
    v_plain    int[] := '{}';       -- what is done already
    v_ids      bigint[];            -- per partition: where it ends
    v_ends     bigint[];
    v_acks     int[];               -- per ack: where its row is
    v_places   tid[];
begin
    if not (p_statuses <@ '{failed,retry,dlq}') then
        select s into v_status from unnest(p_statuses) as s where s is null or s not in ('failed', 'retry', 'dlq') limit 1;
        raise exception 'unknown status "%"; use completed, failed, retry or dlq', v_status using errcode = 'QN424';
    end if;

    -- Row by row, the newest version first: there may be thousands while an old snapshot is held somewhere.
    select array_agg(l.partition_id), array_agg(l.next_offset) into v_ids, v_ends
      from (select distinct k.id from unnest(p_partition_ids) as k (id) order by k.id) as k
     cross join lateral (select l.partition_id, l.next_offset from queen.partition_lookup l
                          where l.partition_id between k.id and k.id
                          order by l.partition_id desc limit 1 for share) as l;
    select array_agg(a.n), array_agg(c.place) into v_acks, v_places
      from (select a.* from unnest(p_partition_ids, p_group_ids) with ordinality as a (id, g, n) order by a.id, a.g) as a
     cross join lateral (select c.ctid as place from queen.partition_consumers c
                          where (c.partition_id, c.group_id) >= (a.id, a.g) and (c.partition_id, c.group_id) <= (a.id, a.g)
                          order by c.partition_id desc, c.group_id desc limit 1 for update) as c;

    if p_message_acks = '{}'    -- and a range each
       and p_range_acks = array_positions(array_fill(true, array[cardinality(p_partition_ids)]), true) then
        held := true;
        dead := v_none;
        released := true;
        already := false;
        for ack, accepted, more, queue_name in
            update queen.partition_consumers c
               set committed = c.lease_to, completed = c.completed + c.lease_to - c.committed,
                   lease_id = null, lease_from = null, lease_to = null, ready_at = case when h.more then p_now end
              from (select r.n, r.place, int8multirange(int8range(greatest(c.f, c.lease_from), c.lease_to)) as accepted,
                           c.lease_to < v_ends[array_position(v_ids, p_partition_ids[r.n])] as more, q.name
                      from unnest(v_acks, v_places) as r (n, place)
                     cross join lateral (select c.*, p_range_froms[r.n] as f, p_range_tos[r.n] as t
                                           from queen.partition_consumers c where c.ctid = r.place offset 0) as c
                     cross join lateral (select g.queue_id from queen.queue_groups g where g.id = p_group_ids[r.n] offset 0) as g
                     cross join lateral (select q.name, q.delayed_processing_seconds + q.window_buffer_seconds as held
                                           from queen.queues q where q.id = g.queue_id offset 0) as q
                     where c.lease_id = p_lease_ids[r.n] and c.ready_at > p_now and c.f <= c.committed and c.lease_to <= c.t
                       and isempty(c.acked) and isempty(c.nacked) and c.retries is null and c.lapses is null
                       and q.held = 0) as h
             where c.ctid = h.place    -- locked above: it has not moved
            returning h.n, h.accepted, h.more, h.name
        loop
            v_plain := v_plain || ack;
            return next;
        end loop;
        if cardinality(v_plain) = cardinality(p_partition_ids) then
            return;
        end if;
    end if;

    select array_agg(a.done order by a.n) into v_done
      from (select r.n, coalesce(range_agg(int8range(r.f, r.t)) filter (where r.f < r.t), v_none) as done
              from (select * from unnest(p_range_acks, p_range_froms, p_range_tos) as r (n, f, t)
                    union all select n, 0, 0 from generate_subscripts(p_partition_ids, 1) as n) as r
             group by r.n) as a;
    if cardinality(p_message_acks) > 0 then
        select f.dead, f.back, f.counts into v_dead, v_back, v_counts
          from queen.judge_failures(p_partition_ids, p_group_ids, p_lease_ids, p_message_acks, p_message_offsets,
                                    p_statuses, p_errors, p_now) as f;
    end if;

    return query
    with held as (
        select a.n::int as n, a.lease_id as asked, c.*,
               coalesce(c.lease_id = a.lease_id and c.ready_at > p_now, false) as held,
               v_done[a.n] as done, coalesce(v_dead[a.n], v_none) as dead, coalesce(v_back[a.n], v_none) as back,
               v_counts[a.n] as counts, v_ends[array_position(v_ids, a.id)] as next_offset,
               int8multirange(int8range(c.lease_from, c.lease_to)) as lease
          from unnest(p_partition_ids, p_group_ids, p_lease_ids) with ordinality as a (id, g, lease_id, n)
          left join queen.partition_consumers c on c.partition_id = a.id and c.group_id = a.g
         where a.n <> all (v_plain)
    ), judged as (
        select h.n, h.partition_id, h.group_id, h.lease, h.next_offset, h.expired, h.dead, h.counts,
               (h.done + h.dead + h.back) * h.lease as accepted,
               h.done * h.lease - h.acked - int8multirange(int8range(null, h.committed)) - h.dead as completed,
               h.dead - h.acked as buried, h.nacked + (h.back - h.acked) - h.done - h.dead as nacked,
               m.committed, m.acked, q.retry_delay_ms, q.retry_backoff,
               q.name as queue_name, q.delayed_processing_seconds, q.window_buffer_seconds, h.retries
          from held h
          join queen.queue_groups g on g.id = h.group_id
          join queen.queues q on q.id = g.queue_id
         cross join lateral queen.advance(h.committed, h.acked + (h.done * h.lease) + h.dead) as m
         where h.held
    ), decided as materialized (
        select j.*, isempty(j.lease * int8multirange(int8range(j.committed, null)) - j.acked - j.nacked) as released,
               case when j.retries is not null or j.counts is not null
                    then queen.keep_retries(coalesce(j.retries || j.counts, j.retries, j.counts), j.committed, j.acked)
               end as retries_left
          from judged j
    ), updated as (
        update queen.partition_consumers c
           set committed = d.committed, acked = d.acked, nacked = case when d.released then v_none else d.nacked end,
               retries = d.retries_left,
               lapses = queen.keep_lapses(c.lapses, d.committed, d.acked),
               completed = c.completed + case when isempty(d.completed) then 0
                                              when d.completed = int8multirange(range_merge(d.completed))
                                              then upper(d.completed) - lower(d.completed)
                                              else queen.multirange_size(d.completed) end,
               dead_lettered = c.dead_lettered + case when isempty(d.buried) then 0 else queen.multirange_size(d.buried) end,
               lease_id = case when d.released then null else c.lease_id end,
               lease_from = case when d.released then null else c.lease_from end,
               lease_to = case when d.released then null else c.lease_to end,
               ready_at = case
                   when not d.released then c.ready_at
                   when d.committed >= d.next_offset then null
                   when (d.retries_left ->> d.committed::text)::int > 0
                   then p_now + make_interval(secs => least(greatest(3600, d.retry_delay_ms / 1000.0), d.retry_delay_ms / 1000.0
                                              * d.retry_backoff ^ least((d.retries_left ->> d.committed::text)::int - 1, 30)))
                   when d.delayed_processing_seconds + d.window_buffer_seconds = 0 then p_now
                   else queen.ready_after(d.partition_id, d.committed, d.delayed_processing_seconds,
                                          d.window_buffer_seconds, p_now) end
          from decided d
         where c.partition_id = d.partition_id and c.group_id = d.group_id
        returning d.n, d.accepted, d.dead, d.released, d.released and d.committed < d.next_offset as more, d.queue_name
    )
    select u.n, true, u.accepted, u.dead, u.released, u.more, false, u.queue_name from updated u
    union all
    select h.n, false, v_none, v_none, false, false,
           coalesce(h.done + coalesce(o.others, v_none) <@ (h.acked + int8multirange(int8range(null, h.committed))), false),
           null
      from held h
     cross join lateral (
         select range_agg(int8range(m.o, m.o + 1)) as others
           from unnest(p_message_acks, p_message_offsets) as m (n, o) where m.n = h.n) as o
     where not h.held;
end $$;
comment on function queen.ack_batch is 'Acknowledge leased messages: completed, failed, retry or dlq.';
