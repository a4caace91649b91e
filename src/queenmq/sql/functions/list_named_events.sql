-- queen.list_named_events: what was noted under a name, across all queues, newest first.
--
-- Raises:  QN400 bad limit or offset.
create function queen.list_named_events(p_name text, p_limit int default 100, p_offset int default 0)
returns table (
    id bigint, partition_id bigint, transaction_id text, group_name text, event_type text, created_at timestamptz,
    data json, names text[], queue text, partition text
)
language plpgsql stable
set jit = off
as $$
#variable_conflict use_column
begin
    perform queen.check_limit(p_limit, 10000);
    perform queen.check_limit(p_offset + 1, 1000001);
    return query
    select e.id, e.partition_id, e.transaction_id, e.group_name, e.event_type, e.created_at, e.data,
           array(select n.name from queen.trace_event_names n where n.event_id = e.id order by 1), q.name, p.name
      from (select event_id from queen.trace_event_names where name = p_name
             order by event_id desc limit p_limit offset p_offset) as n
      join queen.trace_events e on e.id = n.event_id
      join queen.partitions p on p.id = e.partition_id
      join queen.queues q on q.id = p.queue_id
     order by e.id desc;
end $$;
comment on function queen.list_named_events is 'The events of a name, newest first.';
