-- queen.list_message_events: what was noted about a message, in the order it was noted.
--
-- The message is called by its transaction id or message id, or as it was called when something was noted.
--
-- The next page begins after the last event of this one: p_after. more says that there is a next page; a page ends before it
-- has more than p_bytes_max bytes of data, but one event comes in any case.
--
-- Raises:  QN400 bad limit, QN406 no such message.
create function queen.list_message_events(
    p_partition_id    bigint,
    p_transaction_id  text,
    p_limit           int default 1000,
    p_after           bigint default 0,
    p_bytes_max       bigint default null
) returns table (
    id bigint, partition_id bigint, transaction_id text, group_name text, event_type text, created_at timestamptz,
    data json, names text[], queue text, partition text, more boolean
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
    v_offset  bigint;
    v_ids     bigint[];
begin
    perform queen.check_limit(p_limit, 10000);
    select coalesce(l."offset", (select e."offset" from queen.trace_events e
                                  where e.partition_id = p_partition_id and e.transaction_id = p_transaction_id
                                  order by e."offset" desc limit 1)) into v_offset
      from queen.locate_messages(array[p_partition_id], array[null::text], array[p_transaction_id]) as l;
    if v_offset is null then
        raise exception 'there is no message "%" in this partition', p_transaction_id using errcode = 'QN406';
    end if;
    v_ids := array(select e.id from queen.trace_events e
                    where e.partition_id = p_partition_id and e."offset" = v_offset and e.id > p_after
                    order by e.id limit p_limit + 1);
    return query
    select e.*, max(e.id) over () < v_ids[cardinality(v_ids)]
      from queen.describe_events(v_ids[:p_limit], p_bytes_max) as e
     order by e.id;
end $$;
comment on function queen.list_message_events is 'The events of a message, oldest first.';
