-- queen.fetch_segments: the stored segments that cover ranges of offsets.
--
-- One array element is one range [from, to) of a partition. Each segment comes once, whole, even
-- where ranges share it, in offset order within its partition. What retention has deleted is
-- missing. Found by primary key alone.
--
-- p_ahead_bytes: behind each range also the segments that follow, a few, while their payloads and those of
-- the range's last segment have no more bytes together. Who reads a range of a backlog mostly comes back for
-- the next one; but from a large segment there is enough to read.
--
-- Raises:  QN430 another incarnation.
create function queen.fetch_segments(
    p_partition_ids  bigint[],
    p_froms          bigint[],
    p_tos            bigint[],
    p_ahead_bytes    int  default 0,
    p_incarnation    text default null    -- to which the ranges belong
) returns table (
    partition_id bigint, first_offset bigint, message_count int, created_at timestamptz, encrypted boolean,
    producer text, transaction_ids text, trace_ids text, headers text, payloads bytea
)
language plpgsql stable
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    v_same  boolean := queen.check_incarnation(p_incarnation);
begin
    return query
    select s.partition_id, s.first_offset, s.message_count, s.created_at, s.encrypted, s.producer, s.transaction_ids,
           s.trace_ids, s.headers, s.payloads
      from (select s.partition_id, s.first_offset    -- each once: union
              from unnest(p_partition_ids, p_froms, p_tos) as r (id, f, t)
             cross join lateral (
                 select coalesce((select s.first_offset from queen.segments s
                                   where s.partition_id = r.id and s.first_offset <= r.f
                                   order by s.first_offset desc limit 1), r.f) as first_offset) as b
              join queen.segments s on s.partition_id = r.id and s.first_offset >= b.first_offset and s.first_offset < r.t
             where s.first_offset + s.message_count > r.f and r.f < r.t
            union
            select n.partition_id, n.first_offset
              from unnest(p_partition_ids, p_tos) as r (id, t)
             cross join lateral (
                 select s.partition_id, s.first_offset,
                        sum(octet_length(s.payloads)) over (order by s.first_offset rows unbounded preceding) as bytes
                   from (select s.partition_id, s.first_offset, s.payloads from queen.segments s
                          where s.partition_id = r.id
                            and s.first_offset >= coalesce((select l.first_offset from queen.segments l
                                                             where l.partition_id = r.id and l.first_offset < r.t
                                                             order by l.first_offset desc limit 1), r.t)
                          order by s.first_offset limit 17) as s) as n
             where p_ahead_bytes > 0 and n.bytes <= p_ahead_bytes and n.first_offset >= r.t
             order by 1, 2) as k
      join queen.segments s on s.partition_id = k.partition_id and s.first_offset = k.first_offset;
end $$;
comment on function queen.fetch_segments is 'The segments that hold given ranges of offsets, each once.';
