-- queen.append_staged: give staged segments their places.
--
-- What queen.push_segments does for arrays that a caller brings. Segments that are staged are in their table already, and
-- what is large in them is not written again. p_stage_ids are in the order of the messages. The caller has left out
-- duplicates and holds the lookup rows of the partitions.
--
-- What is staged has no statistics, and a join that relies on them may read all segments there are: first a list is made
-- with a look into an index for each segment, and how long that is PostgreSQL knows.
--
-- Locks:   depth_bounds rows of limited queues.
-- Raises:  QN427 encryption required, QN429 full.
-- Returns: how many messages were stored.
create function queen.append_staged(p_stage_ids bigint[], p_queue_id int) returns bigint
language plpgsql
set jit = off set plan_cache_mode = force_custom_plan
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off
as $$
declare
    v_flush          uuid := gen_random_uuid();
    v_stage_ids      bigint[];
    v_ns             int[];
    v_partition_ids  bigint[];
    v_counts         int[];
    v_bytes          int[];
    v_ids            bigint[];
    v_now            timestamptz;
    v_messages       bigint;
    v_queue          queen.queues;
begin
    select array_agg(g.stage_id), array_agg(g.n), array_agg(g.partition_id), array_agg(g.messages), array_agg(g.bytes)
      into v_stage_ids, v_ns, v_partition_ids, v_counts, v_bytes
      from (select g.stage_id, g.n,
                   (select p.id from queen.partitions p where p.queue_id = p_queue_id and p.name = g.partition_name) as partition_id,
                   (select s.message_count from queen.segments s
                     where s.partition_id = -g.stage_id and s.first_offset = g.n) as messages,
                   (select queen.message_bytes(octet_length(s.payloads) + coalesce(octet_length(s.headers), 0), s.message_count)
                      from queen.segments s where s.partition_id = -g.stage_id and s.first_offset = g.n) as bytes
              from unnest(p_stage_ids) with ordinality as t (id, task)
              join queen.staged_segments g on g.stage_id = t.id
             order by t.task, g.n) as g;
    with pushed as (
        update queen.partition_lookup l
           set next_offset = l.next_offset + i.messages, last_message_at = greatest(clock_timestamp(), l.last_message_at),
               last_message_slot = date_bin('10 minutes', greatest(clock_timestamp(), l.last_message_at), 'epoch'),
               message_bytes = case when l.start_offset = l.next_offset then i.bytes else greatest(l.message_bytes, i.bytes) end
          from (select k.id, sum(k.messages) as messages, max(k.bytes) as bytes
                  from unnest(v_partition_ids, v_counts, v_bytes) as k (id, messages, bytes) where k.messages > 0 group by k.id) as i
         where l.partition_id = i.id
        returning l.partition_id, l.last_message_at, i.messages
    )
    select array_agg(p.partition_id order by p.partition_id), min(p.last_message_at), coalesce(sum(p.messages), 0)
      into v_ids, v_now, v_messages from pushed p;
    if v_messages = 0 then
        return 0;
    end if;

    select * into v_queue from queen.queues where id = p_queue_id;
    if v_queue.encryption_enabled then
        perform queen.require_encryption(v_ids[1:1], array(select bool_and(s.encrypted) from queen.segments s
                                                            where s.partition_id in (select -unnest(p_stage_ids))));
    end if;
    if v_queue.max_queue_size > 0 then
        perform queen.reserve_depth(v_queue.id, v_messages);
    end if;

    with places as (    -- the partitions have grown already: a segment ends where those after it begin
        select k.stage_id, k.n, l.partition_id, l.last_message_at as created_at,
               l.next_offset - sum(k.messages) over (partition by l.partition_id order by k.nth desc) as first_offset
          from unnest(v_stage_ids, v_ns, v_partition_ids, v_counts) with ordinality as k (stage_id, n, id, messages, nth)
          join queen.partition_lookup l on l.partition_id = k.id
    ), appended as (
        update queen.segments s
           set partition_id = p.partition_id, first_offset = p.first_offset, queue_id = v_queue.id,
               epoch = (select epoch from queen.system_state), xid = pg_current_xact_id(), created_at = p.created_at, flush_id = v_flush
          from places p
         where s.partition_id = -p.stage_id and s.first_offset = p.n
        returning s.partition_id, s.first_offset, s.created_at, s.trace_ids
    )
    insert into queen.message_traces (trace_id, partition_id, "offset", created_at)
    select t.id::uuid, a.partition_id, a.first_offset + t.k - 1, a.created_at
      from appended a cross join lateral json_array_elements_text(a.trace_ids::json) with ordinality as t (id, k)
     where a.trace_ids is not null and t.id is not null;

    perform queen.wake_groups(v_ids, array_fill(v_queue.id, array[cardinality(v_ids)]),
                              v_queue.delayed_processing_seconds > 0 or v_queue.window_buffer_seconds > 0, v_now);
    return v_messages;
end $$;
comment on function queen.append_staged is 'Append staged segments to their partitions; returns their messages.';
