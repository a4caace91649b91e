-- queen.advance: move a cursor over what is contiguously done.
--
-- committed becomes the first offset that is not done; acked keeps what is done above it.
create function queen.advance(inout committed bigint, inout acked int8multirange)
language sql immutable parallel safe as $$
    select n.committed, advance.acked * int8multirange(int8range(n.committed, null))
      from (select lower(int8multirange(int8range(advance.committed, null)) - advance.acked) as committed) as n
$$;
comment on function queen.advance is 'The cursor after some offsets are done: first undone offset, and done ones above it.';
