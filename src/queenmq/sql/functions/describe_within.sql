-- queen.describe_within: as queen.describe_messages, in the order of the arguments, until a number of bytes is reached.
--
-- Bytes are those of payloads and headers. One message comes in any case. Sizes of segments are known without reading
-- them, so not much more is read than is answered. p_bytes_max null: no limit.
--
-- Returns: n is the message's number among the arguments; more says that messages were left out because of their bytes.
create function queen.describe_within(p_partition_ids bigint[], p_offsets bigint[], p_bytes_max bigint)
returns table (
    n int, more boolean, queue text, partition text, partition_id bigint, "offset" bigint, message_id uuid,
    transaction_id text, trace_id uuid, created_at timestamptz, producer text, encrypted boolean, headers json, payload json
)
language plpgsql stable
set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
#variable_conflict use_column
declare
    v_count  int := cardinality(p_partition_ids);
begin
    -- The first message whose segment cannot be needed: those before it have enough bytes.
    if p_bytes_max is not null then
        v_count := coalesce((
            select min(c.n) - 1
              from (select f.n, sum(f.bytes) over (order by f.n) - f.bytes as before
                      from (select min(k.n)::int as n, max(s.bytes) as bytes
                              from unnest(p_partition_ids, p_offsets) with ordinality as k (id, o, n)
                             cross join lateral (
                                 select s.first_offset, octet_length(s.payloads) + coalesce(octet_length(s.headers), 0) as bytes
                                   from queen.segments s
                                  where s.partition_id = k.id and s.first_offset <= k.o
                                  order by s.first_offset desc limit 1) as s
                             group by k.id, s.first_offset) as f) as c
             where c.before > p_bytes_max), v_count);
    end if;
    return query
    select t.n, coalesce(v_count < cardinality(p_partition_ids) or t.bytes_of_all > p_bytes_max, false), t.queue, t.partition,
           t.partition_id, t."offset", t.message_id, t.transaction_id, t.trace_id, t.created_at, t.producer, t.encrypted,
           t.headers, t.payload
      from (select k.n::int as n, d.*, row_number() over in_order as place, sum(b.bytes) over in_order as bytes,
                   sum(b.bytes) over () as bytes_of_all
              from unnest(p_partition_ids[:v_count], p_offsets[:v_count]) with ordinality as k (id, o, n)
              join queen.describe_messages(p_partition_ids[:v_count], p_offsets[:v_count]) as d
                on d.partition_id = k.id and d."offset" = k.o
             cross join lateral (
                 select octet_length(d.payload::text) + coalesce(octet_length(d.headers::text), 0) as bytes) as b
            window in_order as (order by k.n)) as t
     where p_bytes_max is null or t.place = 1 or t.bytes <= p_bytes_max
     order by t.n;
end $$;
comment on function queen.describe_within is 'Messages by partition and offset, in order, up to a number of bytes.';
