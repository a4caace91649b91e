-- queen.find_flush: was a push committed before the connection broke?
--
-- The pusher had marked its segments with a flush id, and knows for each partition an offset from
-- which on they must lie.
--
-- Returns: the marked segments in the order in which they were pushed, or no rows: nothing of that
--          push was stored.
create function queen.find_flush(p_partition_ids bigint[], p_froms bigint[], p_flush_id uuid)
returns table (first_offset bigint, created_at timestamptz)
language sql stable
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set jit = off
as $$
    select s.first_offset, s.created_at
      from unnest(p_partition_ids, p_froms) as i (id, f)
      join queen.segments s on s.partition_id = i.id and s.first_offset >= i.f and s.flush_id = p_flush_id
     order by s.partition_id, s.first_offset
$$;
comment on function queen.find_flush is 'Where the segments of a flush were stored, or no rows.';
