-- queen.list_messages: the stored messages of queues or of a partition, newest first, page by page.
--
-- p_queue names one queue; without it, all queues of the namespace and task are looked through, or all there are.
--
-- The next page begins after the cursor of the last row of this one. Messages are ordered by the
-- transaction that pushed them, inside one partition by offset: pushes while someone is paging come
-- before the first page and shift nothing. p_status: only messages that the group sees so. more says that the page
-- ends here because it would have more than p_bytes_max bytes of payloads and headers; one message comes in any case.
--
-- Raises:  QN400 bad cursor, status or limit, a partition without a queue, QN404, QN405 no such queue, partition.
create function queen.list_messages(
    p_queue      text        default null,
    p_partition  text        default null,
    p_group      text        default '__QUEUE_MODE__',
    p_status     text        default null,
    p_cursor     text        default null,
    p_limit      int         default 100,
    p_namespace  text        default null,
    p_task       text        default null,
    p_now        timestamptz default clock_timestamp(),
    p_bytes_max  bigint      default null
) returns table (
    queue text, partition text, partition_id bigint, "offset" bigint, message_id uuid, transaction_id text,
    trace_id uuid, created_at timestamptz, producer text, encrypted boolean, headers json, payload json, status text, cursor text, more boolean
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
    v_queues     int[] := case when p_queue is not null then array[queen.find_queue(p_queue)] end;
    v_partition  bigint;
    v_after      text[] := coalesce(string_to_array(p_cursor, '.'),
                                    '{32767,18446744073709551615,9223372036854775807,9223372036854775807}');
    v_ids        bigint[];
    v_offsets    bigint[];
    v_cursors    text[];
begin
    perform queen.check_limit(p_limit, 10000);
    if p_status not in ('pending', 'leased', 'completed', 'dead_letter') then
        raise exception 'unknown status "%"; use pending, leased, completed or dead_letter', p_status using errcode = 'QN400';
    elsif p_cursor !~ '^\d{1,5}(\.\d{1,18}){3}$' or v_after[1]::int > 32767 then
        raise exception '"%" is not a cursor that list_messages gave out', p_cursor using errcode = 'QN400';
    elsif p_partition is not null and p_queue is null then
        raise exception 'a partition is named together with its queue' using errcode = 'QN400';
    end if;
    if p_partition is not null then
        v_partition := queen.find_partition(p_queue, p_partition);
    else
        v_queues := array(select q.id from queen.queues q
                           where (v_queues is null or q.id = any (v_queues))
                             and (p_namespace is null or q.namespace = p_namespace) and (p_task is null or q.task = p_task));
    end if;

    select array_agg(m.partition_id), array_agg(m.o), array_agg(concat_ws('.', m.epoch, m.xid, m.partition_id, m.o))
      into v_ids, v_offsets, v_cursors
      from (select n.* from unnest(v_queues) as k (id)
             cross join lateral (    -- each queue's newest, from its index
                 select s.partition_id, s.epoch, s.xid, o.o
                   from queen.segments s
                  cross join lateral generate_series(s.first_offset + s.message_count - 1, s.first_offset, -1) as o (o)
                  where s.queue_id = k.id
                    and (s.epoch, s.xid) <= (v_after[1]::smallint, v_after[2]::xid8)
                    and (s.epoch, s.xid, s.partition_id, o.o)
                        < (v_after[1]::smallint, v_after[2]::xid8, v_after[3]::bigint, v_after[4]::bigint)
                    and (p_status is null or queen.message_status(s.partition_id, o.o, p_group, p_now) = p_status)
                  order by s.epoch desc, s.xid desc, s.partition_id desc, o.o desc
                  limit p_limit) as n
             where p_partition is null
             order by n.epoch desc, n.xid desc, n.partition_id desc, n.o desc
             limit p_limit) as m;
    if p_partition is not null then
        select array_agg(m.partition_id), array_agg(m.o), array_agg(concat_ws('.', m.epoch, m.xid, m.partition_id, m.o))
          into v_ids, v_offsets, v_cursors
          from (select s.partition_id, s.epoch, s.xid, o.o
                  from queen.segments s
                 cross join lateral generate_series(s.first_offset + s.message_count - 1, s.first_offset, -1) as o (o)
                 where s.partition_id = v_partition
                   and s.first_offset < v_after[4]::bigint and o.o < v_after[4]::bigint
                   and (p_status is null or queen.message_status(s.partition_id, o.o, p_group, p_now) = p_status)
                 order by s.first_offset desc, o.o desc
                 limit p_limit) as m;
    end if;

    return query
    select d.queue, d.partition, d.partition_id, d."offset", d.message_id, d.transaction_id, d.trace_id, d.created_at, d.producer,
           d.encrypted, d.headers, d.payload, queen.message_status(d.partition_id, d."offset", p_group, p_now), v_cursors[d.n], d.more
      from queen.describe_within(v_ids, v_offsets, p_bytes_max) as d
     order by d.n;
end $$;
comment on function queen.list_messages is 'Messages of queues, newest first, with a cursor for the next page.';
