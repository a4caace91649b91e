-- queen.push_segments: append to partitions; all of it, or nothing.
--
-- One array element is one segment: messages of one partition, as the JSON text [p0,p1,...].
-- Several of one partition follow each other.
-- Offsets are given under the partitions' row locks, so the order of commits is the order of
-- offsets and no reader can pass a message by.
--
-- Duplicates: p_transaction_ids[i] is a JSON array of the segment's ids (null elements: none).
-- p_expected_offsets[i] is the next offset up to which the caller knows the partition's ids
-- itself; null means it knows nothing. What lies between is looked at here and handed back as
-- missed_*, so the caller is up to date afterwards. If one of those is among the new ids,
-- nothing is written and first_offsets is null: the caller drops the duplicates and calls again. Nor is anything
-- written where more than 100,000 messages lie between: missed_ids has a null for that segment, missed_offsets where the
-- partition ends, and the caller reads queen.recent_ids first, page by page.
--
-- Locks:   partition_lookup rows, in partition_id order (the first one alone, then the update walks
--          all in the order of its sorted argument); then depth_bounds rows of limited queues, in queue_id order.
-- Raises:  QN405 unknown partition (detail: their ids), QN427 encryption required, QN429 full, QN430 another incarnation.
create function queen.push_segments(
    p_partition_ids      bigint[],
    p_message_counts     int[],
    p_payloads           bytea[],
    p_transaction_ids    text[]      default null,
    p_trace_ids          text[]      default null,
    p_producers          text[]      default null,
    p_encrypted          boolean[]   default null,
    p_expected_offsets   bigint[]    default null,
    p_flush_id           uuid        default null,    -- marks the segments: see queen.find_flush
    p_known_flushes      uuid[]      default null,    -- flushes of the caller that may lie in between
    p_headers            text[]      default null,    -- JSON arrays, as p_trace_ids: see queen.check_headers
    p_now                timestamptz default null,    -- null: the clock, read under the first lock
    p_incarnation        text        default null,    -- on which the ids and the expected offsets depend
    out first_offsets    bigint[],                    -- one per segment
    out created_ats      timestamptz[],               -- one per segment; only one where all are the same
    out woken            bigint[],                    -- partitions where some group had been waiting
    out missed_segments  int[],                       -- one per missed log segment: whose partition
    out missed_offsets   bigint[],
    out missed_times     timestamptz[],
    out missed_ids       text[]
)
language plpgsql
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off set enable_memoize = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
    v_same       boolean := queen.check_incarnation(p_incarnation);
    v_ids        bigint[];         -- per partition, ascending
    v_nexts      bigint[];
    v_times      timestamptz[];
    v_queue_ids  int[];
    v_places     tid[];
    v_messages   bigint[];
    v_bytes      int[];
    v_first      bigint;
    v_queues     int[];            -- per segment
    v_any        record;
    v_again      boolean := false; -- nothing is written, and the caller comes again
    v_queue      record;
begin
    -- Pushes to the same partitions meet at the first of them: what the next statement finds is then
    -- as it reads it, instead of changed by somebody else, which makes it look at every row again.
    if cardinality(p_partition_ids) > 1 then
        v_first := (select min(id) from unnest(p_partition_ids) as id);
        perform from queen.partition_lookup l where l.partition_id between v_first and v_first
          order by l.partition_id desc limit 1 for no key update;
        p_now := coalesce(p_now, clock_timestamp());
    end if;
    if queen.few_versions('queen.partition_lookup_partition', cardinality(p_partition_ids)) then
        with pushed as (
            update queen.partition_lookup l
               set next_offset = l.next_offset + i.messages,
                   last_message_at = greatest(coalesce(p_now, clock_timestamp()), l.last_message_at),
                   last_message_slot = date_bin('10 minutes', greatest(coalesce(p_now, clock_timestamp()), l.last_message_at), 'epoch'),
                   message_bytes = case when l.start_offset = l.next_offset then i.message_bytes    -- nothing else is stored
                                        else greatest(l.message_bytes, i.message_bytes) end
              from (select i.id, sum(i.messages)::bigint as messages, max(i.message_bytes) as message_bytes
                      from queen.message_sizes(p_partition_ids, p_message_counts, p_payloads, p_headers) as i
                     group by i.id order by i.id) as i
             where l.partition_id = i.id
            returning l.partition_id, l.next_offset - i.messages as next_offset, l.last_message_at, l.queue_id
        )
        select array_agg(p.partition_id order by p.partition_id), array_agg(p.next_offset order by p.partition_id),
               array_agg(p.last_message_at order by p.partition_id), array_agg(p.queue_id order by p.partition_id)
          into v_ids, v_nexts, v_times, v_queue_ids from pushed p;
    else    -- row by row, the newest version first
        select array_agg(l.partition_id), array_agg(l.next_offset),
               array_agg(greatest(coalesce(p_now, clock_timestamp()), l.last_message_at)), array_agg(l.queue_id),
               array_agg(l.place), array_agg(i.messages), array_agg(i.message_bytes)
          into v_ids, v_nexts, v_times, v_queue_ids, v_places, v_messages, v_bytes
          from (select i.id, sum(i.messages)::bigint as messages, max(i.message_bytes) as message_bytes
                  from queen.message_sizes(p_partition_ids, p_message_counts, p_payloads, p_headers) as i
                 group by i.id order by i.id) as i
         cross join lateral (select l.*, l.ctid as place from queen.partition_lookup l
                              where l.partition_id between i.id and i.id
                              order by l.partition_id desc limit 1 for no key update) as l;
        update queen.partition_lookup l
           set next_offset = l.next_offset + i.messages, last_message_at = i.at,
               last_message_slot = date_bin('10 minutes', i.at, 'epoch'),
               message_bytes = case when l.start_offset = l.next_offset then i.message_bytes
                                    else greatest(l.message_bytes, i.message_bytes) end
          from unnest(v_places, v_messages, v_times, v_bytes) as i (place, messages, at, message_bytes)
         where l.ctid = i.place;    -- locked above: it has not moved
    end if;

    if v_ids = p_partition_ids then    -- one segment per partition, in order: the common case
        first_offsets := v_nexts;
        created_ats := v_times;
        v_queues := v_queue_ids;
    else
        if cardinality(v_ids) is distinct from (select count(distinct id) from unnest(p_partition_ids) as id) then
            raise exception 'a partition does not exist (any more)' using errcode = 'QN405',
                detail = array_to_json(array(select id from unnest(p_partition_ids) as id
                                              where id <> all (coalesce(v_ids, '{}'))))::text;
        end if;
        select array_agg(s.first_offset order by s.n), array_agg(v_times[s.k] order by s.n),
               array_agg(v_queue_ids[s.k] order by s.n)
          into first_offsets, created_ats, v_queues
          from (select i.n, i.k, v_nexts[i.k] - i.messages + sum(i.messages) over (partition by i.id order by i.n) as first_offset
                  from (select i.*, dense_rank() over (order by i.id) as k
                          from unnest(p_partition_ids, p_message_counts) with ordinality as i (id, messages, n)) as i) as s;
    end if;

    select bool_or(q.max_queue_size > 0) as limited, bool_or(q.encryption_enabled) as encrypted,
           bool_or(q.delayed_processing_seconds > 0 or q.window_buffer_seconds > 0) as held
      into v_any from queen.queues q where q.id = any (array(select distinct unnest(v_queue_ids)));
    if v_any.encrypted then
        perform queen.require_encryption(p_partition_ids, p_encrypted);
    end if;

    if p_transaction_ids is not null and p_expected_offsets is distinct from first_offsets then
        select array_agg(i.n), array_agg(coalesce(m.first_offset, i.first_offset)), array_agg(m.created_at),
               array_agg(m.transaction_ids), coalesce(bool_or(m.duplicate or i.far), false)
          into missed_segments, missed_offsets, missed_times, missed_ids, v_again
          from (select i.*, coalesce(i.first_offset - i.expected > 100000, false) as far
                  from unnest(p_partition_ids, p_transaction_ids, p_expected_offsets, first_offsets, created_ats)
                       with ordinality as i (id, ids, expected, first_offset, now, n)) as i
          left join lateral queen.missed_ids(i.id, i.expected, i.ids, p_known_flushes, i.now) as m on not i.far
         where i.ids is not null and i.expected is distinct from i.first_offset and (i.far or m.first_offset is not null)
           and (i.expected is null
                or exists (select from queen.segments s    -- somebody else's
                            where s.partition_id = i.id and s.first_offset >= i.expected and s.first_offset < i.first_offset
                              and (s.flush_id = any (p_known_flushes)) is not true));
    end if;
    if v_again then
        update queen.partition_lookup l
           set next_offset = i.next_offset,
               last_message_at = coalesce((select s.created_at from queen.segments s where s.partition_id = i.id
                                            order by s.first_offset desc limit 1), l.last_message_at)
          from unnest(v_ids, v_nexts) as i (id, next_offset) where l.partition_id = i.id;
        first_offsets := null;
        created_ats := null;
        return;
    end if;

    if v_any.limited then
        for v_queue in
            select q.id, sum(i.messages) as messages
              from unnest(v_queues, p_message_counts) as i (queue_id, messages)
              join queen.queues q on q.id = i.queue_id
             where q.max_queue_size > 0 group by q.id order by q.id
        loop
            perform queen.reserve_depth(v_queue.id, v_queue.messages);
        end loop;
    end if;

    insert into queen.segments (partition_id, first_offset, message_count, queue_id, epoch, encrypted, created_at,
                                flush_id, producer, transaction_ids, trace_ids, headers, payloads)
    select i.id, i.first_offset, i.messages, i.queue_id, s.epoch, coalesce(i.encrypted, false), i.created_at,
           p_flush_id, i.producer, i.ids, i.traces, i.headers, i.payloads
      from queen.system_state s
     cross join unnest(p_partition_ids, first_offsets, p_message_counts, v_queues, p_encrypted, created_ats, p_producers,
                       p_transaction_ids, p_trace_ids, p_headers, p_payloads)
           as i (id, first_offset, messages, queue_id, encrypted, created_at, producer, ids, traces, headers, payloads);

    if p_trace_ids is not null then
        insert into queen.message_traces (trace_id, partition_id, "offset", created_at)
        select t.id::uuid, i.id, i.first_offset + t.k - 1, i.created_at
          from unnest(p_partition_ids, p_trace_ids, first_offsets, created_ats) as i (id, traces, first_offset, created_at)
         cross join lateral json_array_elements_text(i.traces::json) with ordinality as t (id, k)
         where t.id is not null;
    end if;

    woken := queen.wake_groups(v_ids, v_queue_ids, v_any.held, v_times[1]);
    if array_remove(created_ats, created_ats[1]) = '{}' then
        created_ats := created_ats[1:1];
    end if;
end $$;
comment on function queen.push_segments is 'Append segments to partitions, all or nothing; answers their first offsets.';
