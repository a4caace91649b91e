-- queen.append_staged: give staged segments their places.
--
-- What queen.push_segments does for arrays that a caller brings. Segments that are staged are in their table already, and
-- what is large in them is not written again. p_stage_ids are in the order of the messages, p_names and p_partition_ids
-- belong together. The caller has left out duplicates and holds the lookup rows of the partitions.
--
-- Locks:   queue_depths rows of limited queues.
-- Raises:  QN427 encryption required, QN429 full.
-- Returns: how many messages were stored.
create function queen.append_staged(p_stage_ids bigint[], p_names text[], p_partition_ids bigint[]) returns bigint
language plpgsql
set jit = off set plan_cache_mode = force_custom_plan set enable_mergejoin = off set enable_seqscan = off
as $$
declare
    v_flush     uuid := gen_random_uuid();
    v_ids       bigint[];
    v_nexts     bigint[];
    v_times     timestamptz[];
    v_messages  bigint;
    v_queue     queen.queues;
begin
    with pushed as (
        update queen.partition_lookup l
           set next_offset = l.next_offset + i.messages, last_message_at = greatest(clock_timestamp(), l.last_message_at)
          from (select i.id, sum(s.message_count)::bigint as messages
                  from queen.staged_segments g
                  join queen.segments s on s.partition_id = -g.stage_id and s.first_offset = g.n
                  join unnest(p_names, p_partition_ids) as i (name, id) on i.name = g.partition_name
                 where g.stage_id = any (p_stage_ids) group by i.id) as i
         where l.partition_id = i.id
        returning l.partition_id, l.next_offset - i.messages as next_offset, l.last_message_at, i.messages
    )
    select array_agg(p.partition_id order by p.partition_id), array_agg(p.next_offset order by p.partition_id),
           array_agg(p.last_message_at order by p.partition_id), coalesce(sum(p.messages), 0)
      into v_ids, v_nexts, v_times, v_messages from pushed p;
    if v_messages = 0 then
        return 0;
    end if;

    select q.* into v_queue from queen.queues q join queen.partition_lookup l on l.queue_id = q.id where l.partition_id = v_ids[1];
    if v_queue.encryption_enabled then
        perform queen.require_encryption(v_ids[1:1], array(select bool_and(s.encrypted) from queen.segments s
                                                            where s.partition_id in (select -unnest(p_stage_ids))));
    end if;
    if v_queue.max_queue_size > 0 then
        perform queen.reserve_depth(v_queue.id, v_messages);
    end if;

    with places as (
        select g.stage_id, g.n, o.id as partition_id, o.created_at,
               o.next_offset - s.message_count + sum(s.message_count) over (partition by o.id order by t.task, g.n) as first_offset
          from unnest(p_stage_ids) with ordinality as t (id, task)
          join queen.staged_segments g on g.stage_id = t.id
          join queen.segments s on s.partition_id = -g.stage_id and s.first_offset = g.n
          join unnest(p_names, p_partition_ids) as i (name, id) on i.name = g.partition_name
          join unnest(v_ids, v_nexts, v_times) as o (id, next_offset, created_at) on o.id = i.id
    ), appended as (
        update queen.segments s
           set partition_id = p.partition_id, first_offset = p.first_offset, queue_id = v_queue.id, epoch = y.epoch,
               xid = pg_current_xact_id(), created_at = p.created_at, flush_id = v_flush
          from places p cross join queen.system_state y
         where s.partition_id = -p.stage_id and s.first_offset = p.n
        returning s.partition_id, s.first_offset, s.created_at, s.trace_ids
    )
    insert into queen.message_traces (trace_id, partition_id, "offset", created_at)
    select t.id::uuid, a.partition_id, a.first_offset + t.k - 1, a.created_at
      from appended a cross join lateral json_array_elements_text(a.trace_ids::json) with ordinality as t (id, k)
     where a.trace_ids is not null and t.id is not null;

    perform queen.wake_groups(v_ids, array_fill(v_queue.id, array[cardinality(v_ids)]),
                              v_queue.delayed_processing_seconds > 0 or v_queue.window_buffer_seconds > 0, v_times[1]);
    return v_messages;
end $$;
comment on function queen.append_staged is 'Append staged segments to their partitions; returns their messages.';
