-- queen.list_dead_letters: what groups gave up on, newest first, page by page.
--
-- The next page: p_before_id is the id of the last row of this one; or p_skip rows are passed over, which
-- costs as much as reading them. p_from and p_to limit the moment of failure, [from, to). A page ends before it has more than
-- p_bytes_max bytes of payloads, headers and errors; one dead letter comes in any case.
--
-- Raises:  QN400 bad limit or skip, QN404 no such queue.
create function queen.list_dead_letters(
    p_queue      text        default null,
    p_group      text        default null,
    p_partition  text        default null,
    p_from       timestamptz default null,
    p_to         timestamptz default null,
    p_before_id  bigint      default null,
    p_limit      int         default 100,
    p_skip       int         default 0,
    p_bytes_max  bigint      default null
) returns table (
    id bigint, queue text, partition text, partition_id bigint, group_name text, "offset" bigint, message_id uuid,
    transaction_id text, trace_id uuid, created_at timestamptz, failed_at timestamptz, retry_count int, error text,
    producer text, encrypted boolean, headers json, payload json
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
    v_queue  int := case when p_queue is not null then queen.find_queue(p_queue) end;
begin
    perform queen.check_limit(p_limit, 10000);
    if p_skip is null or p_skip < 0 then
        raise exception 'cannot skip % dead letters', coalesce(p_skip::text, 'null') using errcode = 'QN400';
    end if;
    return query
    select d.id, d.queue_name, d.partition_name, d.partition_id, d.group_name, d."offset", m.id, coalesce(d.transaction_id, m.id::text),
           d.trace_id, d.created_at, d.failed_at, d.retry_count, d.error, d.producer, d.encrypted,
           d.headers, convert_from(d.payload, 'UTF8')::json
      from (select d.*, row_number() over newest_first as place,
                   sum(octet_length(d.payload) + coalesce(octet_length(d.headers::text), 0) + coalesce(octet_length(d.error), 0)) over newest_first as bytes
              from (select d.*, q.name as queue_name, p.name as partition_name
                      from queen.dead_letters d
                      join queen.queues q on q.id = d.queue_id
                      join queen.partitions p on p.id = d.partition_id
                     where (v_queue is null or d.queue_id = v_queue)
                       and (p_group is null or d.group_name = p_group)
                       and (p_partition is null or p.name = p_partition)
                       and (p_from is null or d.failed_at >= p_from)
                       and (p_to is null or d.failed_at < p_to)
                       and (p_before_id is null or d.id < p_before_id)
                     order by d.id desc limit p_limit offset p_skip) as d
            window newest_first as (order by d.id desc)) as d
     cross join lateral (select queen.message_id(d.created_at, d.partition_id, d."offset") as id) as m
     where p_bytes_max is null or d.place = 1 or d.bytes <= p_bytes_max
     order by d.id desc;
end $$;
comment on function queen.list_dead_letters is 'Dead letters, newest first.';
