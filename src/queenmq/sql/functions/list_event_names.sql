-- queen.list_event_names: the names under which something was noted, those used last first.
--
-- Raises:  QN400 bad limit or offset.
create function queen.list_event_names(p_limit int default 100, p_offset int default 0)
returns table (name text, events bigint, messages bigint, last_at timestamptz)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
#variable_conflict use_column
begin
    perform queen.check_limit(p_limit, 10000);
    perform queen.check_limit(p_offset + 1, 1000001);
    return query
    select n.name, count(*), count(distinct (e.partition_id, e."offset")), max(e.created_at)
      from queen.trace_event_names n join queen.trace_events e on e.id = n.event_id
     group by n.name order by max(e.id) desc limit p_limit offset p_offset;
end $$;
comment on function queen.list_event_names is 'Names of events with how often and when last they were used.';
