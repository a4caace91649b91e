-- queen.record_event: note that something happened to a message while it was worked on.
--
-- The message is called by its transaction id or message id. Events live as long as their message: what
-- deletes messages deletes their events, and under the shared lock no message goes meanwhile.
--
-- Locks:   the lookup row, shared.
-- Raises:  QN400 too many names, QN405 no such partition, QN406 no such message, QN421 bad name.
-- Returns: the event's id.
create function queen.record_event(
    p_partition_id    bigint,
    p_transaction_id  text,
    p_event_type      text,
    p_data            json,
    p_group           text        default '__QUEUE_MODE__',
    p_names           text[]      default '{}',
    p_now             timestamptz default clock_timestamp()
) returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_start   bigint;
    v_offset  bigint;
    v_id      bigint;
begin
    perform queen.check_name(p_event_type, 'event type');
    perform queen.check_name(p_group, 'group');
    perform queen.check_name(n, 'trace') from unnest(p_names) as n;
    if cardinality(p_names) > 100 then
        raise exception 'an event has at most 100 names, not %', cardinality(p_names) using errcode = 'QN400';
    end if;

    select start_offset into v_start from queen.partition_lookup where partition_id = p_partition_id for share;
    if not found then
        raise exception 'there is no such partition' using errcode = 'QN405';
    end if;
    select l."offset" into v_offset
      from queen.locate_messages(array[p_partition_id], array[p_group], array[p_transaction_id], p_now) as l;
    if v_offset is null or v_offset < v_start then
        raise exception 'there is no message "%" in this partition', p_transaction_id using errcode = 'QN406';
    end if;

    insert into queen.trace_events (partition_id, "offset", transaction_id, group_name, event_type, created_at, data)
    values (p_partition_id, v_offset, p_transaction_id, p_group, p_event_type, p_now, p_data)
    returning id into v_id;
    insert into queen.trace_event_names (name, event_id) select distinct n, v_id from unnest(p_names) as n;
    return v_id;
end $$;
comment on function queen.record_event is 'Store an event about a message; returns its id.';
