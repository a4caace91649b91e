-- queen.list_message_events: what was noted about a message, in the order it was noted.
--
-- The message is called by its transaction id or message id, or as it was called when something was noted.
--
-- Raises:  QN400 bad limit, QN406 no such message.
create function queen.list_message_events(
    p_partition_id    bigint,
    p_transaction_id  text,
    p_limit           int default 1000
) returns table (
    id bigint, partition_id bigint, transaction_id text, group_name text, event_type text, created_at timestamptz,
    data json, names text[], queue text, partition text
)
language plpgsql stable
set jit = off
as $$
#variable_conflict use_column
declare
    v_offset  bigint;
begin
    perform queen.check_limit(p_limit, 10000);
    select coalesce(l."offset", (select e."offset" from queen.trace_events e
                                  where e.partition_id = p_partition_id and e.transaction_id = p_transaction_id
                                  order by e."offset" desc limit 1)) into v_offset
      from queen.locate_messages(array[p_partition_id], array[null::text], array[p_transaction_id]) as l;
    if v_offset is null then
        raise exception 'there is no message "%" in this partition', p_transaction_id using errcode = 'QN406';
    end if;
    return query
    select e.id, e.partition_id, e.transaction_id, e.group_name, e.event_type, e.created_at, e.data,
           array(select n.name from queen.trace_event_names n where n.event_id = e.id order by 1), q.name, p.name
      from queen.trace_events e
      join queen.partitions p on p.id = e.partition_id
      join queen.queues q on q.id = p.queue_id
     where e.partition_id = p_partition_id and e."offset" = v_offset
     order by e.id limit p_limit;
end $$;
comment on function queen.list_message_events is 'The events of a message, oldest first.';
