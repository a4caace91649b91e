-- queen.advance: move a cursor over what is contiguously done.
--
-- committed becomes the first offset that is not done; acked keeps what is done above it. One row; declared as a
-- set, because only such functions become part of the statement that calls them.
create function queen.advance(p_committed bigint, p_acked int8multirange)
returns table (committed bigint, acked int8multirange)
language sql immutable parallel safe rows 1 as $$
    select n.committed, p_acked * int8multirange(int8range(n.committed, null))
      from (select lower(int8multirange(int8range(p_committed, null)) - p_acked) as committed) as n
$$;
comment on function queen.advance is 'The cursor after some offsets are done: first undone offset, and done ones above it.';
