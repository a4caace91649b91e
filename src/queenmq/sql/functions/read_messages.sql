-- queen.read_messages: messages of a partition from an offset on, without a lease and without a group.
--
-- Raises:  QN400 bad offset or limit, QN404, QN405 no such queue, partition.
create function queen.read_messages(
    p_queue      text,
    p_partition  text,
    p_offset     bigint default 0,
    p_limit      int    default 100
) returns table (
    queue text, partition text, partition_id bigint, "offset" bigint, message_id uuid, transaction_id text,
    trace_id uuid, created_at timestamptz, producer text, encrypted boolean, headers json, payload json
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_id       bigint := queen.find_partition(p_queue, p_partition);
    v_offsets  bigint[];
begin
    perform queen.check_limit(p_limit, 10000);
    if p_offset is null or p_offset < 0 then
        raise exception 'offset % is no offset', coalesce(p_offset::text, 'null') using errcode = 'QN400';
    end if;
    v_offsets := array(select o
                         from (select l.* from queen.partition_lookup l where l.partition_id between v_id and v_id
                                order by l.partition_id desc limit 1) as l    -- by the index, whatever the planner believes
                        cross join lateral generate_series(greatest(p_offset, l.start_offset), l.next_offset - 1) as o
                        limit p_limit);
    return query
    select d.* from queen.describe_messages(array_fill(v_id, array[cardinality(v_offsets)]), v_offsets) as d
     order by d."offset";
end $$;
comment on function queen.read_messages is 'Messages of a partition by offset, without taking them.';
