-- queen.explain_place: why a group gets nothing from a partition, or that it would.
--
-- The same facts as those a pop goes by (queen.hand_out, queen.give_up), looked at without a lock.
create function queen.explain_place(
    p_queue_id      int,
    p_group_id      int,
    p_partition_id  bigint,
    p_now           timestamptz,
    out cause       text,
    out until       timestamptz,    -- when that ends by itself
    out messages    bigint,         -- that are meant
    out "offset"    bigint,         -- of the first of them
    out lease_id    uuid,
    out failures    int,
    out explanation text
)
language plpgsql stable as $$
#variable_conflict use_variable
declare
    v_queue   queen.queues;
    v_log     queen.partition_lookup;
    v_place   queen.partition_consumers;
    v_head_at timestamptz;    -- when the next message was pushed
    v_quiet   timestamptz;    -- the end of the window
    v_due     timestamptz;    -- the end of the delay
    v_stale   bigint;
begin
    select * into v_queue from queen.queues q where q.id = p_queue_id;
    select * into v_log from queen.partition_lookup l where l.partition_id = p_partition_id;
    select * into v_place from queen.partition_consumers c
     where c.partition_id = p_partition_id and c.group_id = p_group_id;
    if not found then
        cause := 'not_reached';
        messages := v_log.next_offset - v_log.start_offset;
        "offset" := v_log.start_offset;
        explanation := 'the group has not popped this partition, nor the whole queue since the partition was made';
        return;
    end if;

    select s.created_at into v_head_at from queen.segments s
     where s.partition_id = p_partition_id and s.first_offset <= v_place.committed
     order by s.first_offset desc limit 1;
    "offset" := v_place.committed;
    messages := v_log.next_offset - v_place.committed - queen.multirange_size(v_place.acked);
    failures := queen.count_lapses(v_place.lapses, v_place.committed) + coalesce((v_place.retries ->> v_place.committed::text)::int, 0);
    until := case when v_place.ready_at > p_now then v_place.ready_at end;
    v_quiet := v_log.last_message_at + make_interval(secs => v_queue.window_buffer_seconds);
    v_due := v_head_at + make_interval(secs => v_queue.delayed_processing_seconds);
    v_stale := case when v_queue.age_limit_seconds > 0 then greatest(0, queen.offset_at(
                   p_partition_id, p_now - make_interval(secs => v_queue.age_limit_seconds)) - v_place.committed) else 0 end;

    if v_place.lease_id is not null and until is not null then
        cause := 'leased';
        lease_id := v_place.lease_id;
        messages := queen.multirange_size(
            int8multirange(int8range(greatest(v_place.lease_from, v_place.committed),
                                     greatest(v_place.lease_from, v_place.committed, v_place.lease_to)))
            - v_place.acked - v_place.nacked);
        explanation := format('a consumer holds it since %s and until %s, unless it acknowledges or renews before',
                              queen.clock_text(v_place.last_served_at), queen.clock_text(until));
    elsif v_place.starts_at > p_now then
        cause := 'subscribed_later';
        until := v_place.starts_at;
        messages := v_log.next_offset - v_log.start_offset;
        "offset" := v_log.start_offset;
        explanation := format('the group reads messages that are pushed from %s on', queen.clock_text(until));
    elsif messages = 0 and v_place.origin > v_log.start_offset and v_place.committed = v_place.origin then
        cause := 'subscribed_later';
        messages := v_place.origin - v_log.start_offset;
        "offset" := v_log.start_offset;
        explanation := format('the group subscribed, or was moved, to what comes after the %s messages that are stored', messages);
    elsif messages = 0 then
        cause := case when v_log.next_offset = v_log.start_offset then 'empty' else 'read' end;
        explanation := case cause when 'empty' then 'nothing is stored' else 'the group has finished all that is stored' end;
    elsif until is not null and coalesce((v_place.retries ->> v_place.committed::text)::int, 0) > 0 then
        cause := 'retrying';
        explanation := format('the next message has failed: retry %s of %s is due at %s', failures, v_queue.retry_limit,
                              queen.clock_text(until));
    elsif v_queue.window_buffer_seconds > 0 and v_quiet > p_now then
        cause := 'debounced';
        until := greatest(until, v_quiet);
        explanation := format('the queue waits until a partition was quiet for %s s, which this one is at %s',
                              v_queue.window_buffer_seconds, queen.clock_text(until));
    elsif until is not null or (v_queue.delayed_processing_seconds > 0 and v_due > p_now) then
        cause := 'delayed';
        until := greatest(until, v_due);
        explanation := format('messages are delivered %s s after their push, the next one at %s',
                              v_queue.delayed_processing_seconds, queen.clock_text(until));
    elsif v_stale > 0 then
        cause := 'too_old';
        messages := v_stale;
        explanation := format('%s messages waited longer than %s s: the next pop gives them up', v_stale, v_queue.age_limit_seconds);
    elsif v_place.lease_id is not null and queen.count_lapses(v_place.lapses, v_place.committed) >= v_queue.retry_limit then
        cause := 'poison';
        explanation := format('%s leases on the next message expired, and %s retries are allowed: the next pop delivers it '
                              'alone, or gives it up', queen.count_lapses(v_place.lapses, v_place.committed) + 1, v_queue.retry_limit);
    else
        cause := 'ready';
        explanation := 'a pop gets it now: '
                       || coalesce('the last one was at ' || queen.clock_text(v_place.last_served_at), 'nobody has asked yet');
    end if;
end $$;
comment on function queen.explain_place is 'Why a group gets nothing from one partition.';
