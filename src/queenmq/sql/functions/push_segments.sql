-- queen.push_segments: append to partitions; all of it, or nothing.
--
-- One array element is one segment: messages of one partition, as the JSON text [p0,p1,...].
-- The elements come in ascending partition_id order; several of one partition follow each other.
-- Offsets are given under the partitions' row locks, so the order of commits is the order of
-- offsets and no reader can pass a message by.
--
-- Duplicates: p_transaction_ids[i] is a JSON array of the segment's ids (null elements: none).
-- p_expected_offsets[i] is the next offset up to which the caller knows the partition's ids
-- itself; null means it knows nothing. What lies between is looked at here and handed back as
-- missed_*, so the caller is up to date afterwards. If one of those is among the new ids,
-- nothing is written and every first_offset is null: the caller drops the duplicates and calls
-- again.
--
-- Locks:   queue_depths rows of limited queues, in queue_id order; partition_lookup rows, in
--          partition_id order.
-- Raises:  QN400 not in order, QN405 unknown partition (detail: their ids), QN427 encryption required, QN429 full.
create function queen.push_segments(
    p_partition_ids     bigint[],
    p_message_counts    int[],
    p_payloads          bytea[],
    p_transaction_ids   text[]      default null,
    p_trace_ids         text[]      default null,
    p_producers         text[]      default null,
    p_encrypted         boolean[]   default null,
    p_expected_offsets  bigint[]    default null,
    p_flush_id          uuid        default null,    -- marks the first segment: see queen.find_flush
    p_now               timestamptz default null     -- null: the clock, read under the locks
) returns table (
    segment int, first_offset bigint, created_at timestamptz, missed_offsets bigint[], missed_ids text[],
    woken bigint[]    -- on the first row: the partitions where some group had been waiting
)
language plpgsql
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    v_known      bigint[];
    v_queues     int[];
    v_queue      record;
    v_any        record;
    v_epoch      smallint := (select epoch from queen.system_state);
    v_firsts     bigint[];
    v_times      timestamptz[];
    v_woken      bigint[];
    v_stale      int[];         -- three arrays, one element per missed segment
    v_offsets    bigint[];
    v_ids        text[];
    v_duplicate  boolean := false;
begin
    if exists (select from (select id < lag(id) over () as down from unnest(p_partition_ids) as id) as i where i.down) then
        raise exception 'p_partition_ids must be in ascending order' using errcode = 'QN400';
    end if;

    -- Settings first: a limited queue's depth row is locked before any partition.
    select array_agg(distinct l.queue_id) into v_queues
      from queen.partition_lookup l where l.partition_id = any (p_partition_ids);
    select bool_or(q.max_queue_size > 0) as limited, bool_or(q.encryption_enabled) as encrypted,
           bool_or(q.delayed_processing_seconds > 0 or q.window_buffer_seconds > 0) as held
      into v_any from queen.queues q where q.id = any (v_queues);
    if v_any.encrypted then
        perform queen.require_encryption(p_partition_ids, p_encrypted);
    end if;
    if v_any.limited then
        for v_queue in
            select q.id, sum(i.n) as messages
              from unnest(p_partition_ids, p_message_counts) as i (id, n)
              join queen.partition_lookup l on l.partition_id = i.id
              join queen.queues q on q.id = l.queue_id
             where q.max_queue_size > 0 group by q.id order by q.id
        loop
            perform queen.reserve_depth(v_queue.id, v_queue.messages);
        end loop;
    end if;

    select array_agg(l.partition_id) into v_known
      from (select l.partition_id from queen.partition_lookup l
             where l.partition_id = any (p_partition_ids)
             order by l.partition_id for no key update) as l;
    if cardinality(v_known) is distinct from (select count(distinct id) from unnest(p_partition_ids) as id) then
        raise exception 'a partition does not exist (any more)' using errcode = 'QN405',
            detail = array_to_json(array(select id from unnest(p_partition_ids) as id
                                          where id <> all (coalesce(v_known, '{}'))))::text;
    end if;
    p_now := coalesce(p_now, clock_timestamp());

    if p_transaction_ids is not null then
        select array_agg(i.n), array_agg(m.first_offset), array_agg(m.transaction_ids), coalesce(bool_or(m.duplicate), false)
          into v_stale, v_offsets, v_ids, v_duplicate
          from unnest(p_partition_ids, p_transaction_ids, p_expected_offsets) with ordinality as i (id, ids, expected, n)
          join queen.partition_lookup l on l.partition_id = i.id
         cross join lateral queen.missed_ids(i.id, i.expected, i.ids, p_now) as m
         where i.ids is not null and i.expected is distinct from l.next_offset;
    end if;

    if not v_duplicate then
        with written as (
            insert into queen.segments (partition_id, first_offset, message_count, queue_id, epoch, encrypted,
                                        created_at, flush_id, producer, transaction_ids, trace_ids, payloads)
            select i.id, l.next_offset + sum(i.messages) over (partition by i.id order by i.n) - i.messages,
                   i.messages, l.queue_id, v_epoch, coalesce(i.encrypted, false), greatest(p_now, l.last_message_at),
                   case when i.n = 1 then p_flush_id end, i.producer, i.ids, i.traces, i.payloads
              from unnest(p_partition_ids, p_message_counts, p_payloads, p_transaction_ids, p_trace_ids, p_producers,
                          p_encrypted) with ordinality as i (id, messages, payloads, ids, traces, producer, encrypted, n)
              join queen.partition_lookup l on l.partition_id = i.id
             order by i.id, i.n
            returning partition_id, first_offset, created_at
        )
        select array_agg(w.first_offset order by w.partition_id, w.first_offset),
               array_agg(w.created_at order by w.partition_id, w.first_offset)
          into v_firsts, v_times from written w;

        update queen.partition_lookup l
           set next_offset = i.next_offset, last_message_at = i.created_at
          from (select i.id, max(i.first_offset + i.messages) as next_offset, max(i.created_at) as created_at
                  from unnest(p_partition_ids, p_message_counts, v_firsts, v_times) as i (id, messages, first_offset, created_at)
                 group by i.id) as i
         where l.partition_id = i.id;

        if p_trace_ids is not null then
            insert into queen.message_traces (trace_id, partition_id, "offset", created_at)
            select t.id::uuid, i.id, i.first_offset + t.k - 1, i.created_at
              from unnest(p_partition_ids, p_trace_ids, v_firsts, v_times) as i (id, traces, first_offset, created_at)
             cross join lateral json_array_elements_text(i.traces::json) with ordinality as t (id, k)
             where t.id is not null;
        end if;

        v_woken := queen.wake_groups(v_known, v_any.held, p_now);
    end if;

    return query
    select i.n::int, i.first_offset, i.created_at,
           case when i.n = any (v_stale) then
               array(select m.o from unnest(v_stale, v_offsets) as m (n, o) where m.n = i.n) end,
           case when i.n = any (v_stale) then
               array(select m.t from unnest(v_stale, v_ids) as m (n, t) where m.n = i.n) end,
           case when i.n = 1 then v_woken end
      from unnest(p_partition_ids, v_firsts, v_times) with ordinality as i (id, first_offset, created_at, n);
end $$;
comment on function queen.push_segments is 'Append segments to partitions, all or nothing; answers their first offsets.';
