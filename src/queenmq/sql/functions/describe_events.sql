-- queen.describe_events: what was noted, in the order of the argument, until a number of bytes is reached.
--
-- One event comes in any case; p_bytes_max null: no limit. Events are read one after the other, because the size of a
-- json value is known only when it was read.
create function queen.describe_events(p_ids bigint[], p_bytes_max bigint)
returns table (
    id bigint, partition_id bigint, transaction_id text, group_name text, event_type text, created_at timestamptz,
    data json, names text[], queue text, partition text
)
language plpgsql stable
set jit = off
as $$
#variable_conflict use_column
declare
    v_bytes  bigint := 0;
    v_own    bigint;
begin
    for id, partition_id, transaction_id, group_name, event_type, created_at, data, queue, partition in
        select e.id, e.partition_id, e.transaction_id, e.group_name, e.event_type, e.created_at, e.data, q.name, p.name
          from unnest(p_ids) with ordinality as k (id, n)
         cross join lateral (select e.* from queen.trace_events e where e.id = k.id offset 0) as e
          join queen.partitions p on p.id = e.partition_id
          join queen.queues q on q.id = p.queue_id
         order by k.n
    loop
        v_own := octet_length(data::text);
        exit when v_bytes > 0 and v_bytes + v_own > p_bytes_max;
        v_bytes := v_bytes + v_own;
        names := array(select n.name from queen.trace_event_names n where n.event_id = id order by 1);
        return next;
    end loop;
end $$;
comment on function queen.describe_events is 'Events by id, in order, up to a number of bytes.';
