-- queen.describe_messages: single messages with everything that is known about them.
--
-- One array element is one message, named by partition and offset. Each segment is taken apart
-- once, however many of its messages are asked for. A message that is no longer stored is missing.
-- The transaction id of a message that was given none is its own id.
create function queen.describe_messages(p_partition_ids bigint[], p_offsets bigint[])
returns table (
    queue text, partition text, partition_id bigint, "offset" bigint, message_id uuid, transaction_id text,
    trace_id uuid, created_at timestamptz, producer text, encrypted boolean, headers json, payload json
)
language sql stable
set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
    select q.name, p.name, s.partition_id, m."offset", m.id, coalesce(e.transaction_id, m.id::text), e.trace_id::uuid,
           s.created_at, s.producer, s.encrypted, e.headers::json, e.payload
      from (select w.id, f.first_offset, array_agg(w.o - f.first_offset + 1) as places
              from unnest(p_partition_ids, p_offsets) as w (id, o)
             cross join lateral (select s.first_offset, s.message_count from queen.segments s
                                  where s.partition_id = w.id and s.first_offset <= w.o
                                  order by s.first_offset desc limit 1) as f
             where w.o < f.first_offset + f.message_count
             group by 1, 2) as k
      join queen.segments s on s.partition_id = k.id and s.first_offset = k.first_offset
      join queen.partitions p on p.id = s.partition_id
      join queen.queues q on q.id = p.queue_id
     cross join lateral rows from (
          json_array_elements(convert_from(s.payloads, 'UTF8')::json),
          json_array_elements_text(s.transaction_ids::json),
          json_array_elements_text(s.trace_ids::json),
          json_array_elements_text(s.headers::json)
          ) with ordinality as e (payload, transaction_id, trace_id, headers, place)
     cross join lateral (select o as "offset", queen.message_id(s.created_at, s.partition_id, o) as id
                           from (select s.first_offset + e.place - 1 as o) as o) as m
     where e.place = any (k.places)
$$;
comment on function queen.describe_messages is 'Messages by partition and offset, with payload and ids.';
