-- queen.find_flush: was a push committed before the connection broke?
--
-- The pusher had marked its first segment with a flush id, and knows an offset from which on that
-- segment must lie.
--
-- Returns: the marked segment, or no row: nothing of that push was stored.
create function queen.find_flush(p_partition_id bigint, p_from bigint, p_flush_id uuid)
returns table (first_offset bigint, created_at timestamptz)
language sql stable as $$
    select s.first_offset, s.created_at from queen.segments s
     where s.partition_id = p_partition_id and s.first_offset >= p_from and s.flush_id = p_flush_id
     limit 1
$$;
comment on function queen.find_flush is 'Where a flush was stored, or no row.';
