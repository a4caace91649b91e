-- queen.list_named_events: what was noted under a name, across all queues, newest first.
--
-- A page ends before it has more than p_bytes_max bytes of data; one event comes in any case.
--
-- Raises:  QN400 bad limit or offset.
create function queen.list_named_events(p_name text, p_limit int default 100, p_offset int default 0,
                                        p_bytes_max bigint default null)
returns table (
    id bigint, partition_id bigint, transaction_id text, group_name text, event_type text, created_at timestamptz,
    data json, names text[], queue text, partition text
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
#variable_conflict use_column
begin
    perform queen.check_limit(p_limit, 10000);
    perform queen.check_limit(p_offset + 1, 1000001);
    return query
    select * from queen.describe_events(array(select event_id from queen.trace_event_names where name = p_name
                                               order by event_id desc limit p_limit offset p_offset), p_bytes_max);
end $$;
comment on function queen.list_named_events is 'The events of a name, newest first.';
