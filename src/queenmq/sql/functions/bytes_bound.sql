-- queen.bytes_bound: no more bytes than this have so many messages in a row, wherever they begin.
--
-- p_message_bytes is the largest queen.message_bytes of the partition's segments. Whole segments have the average at
-- most; the first and the last may be cut, and what is taken of them can be all of their bytes.
create function queen.bytes_bound(p_messages bigint, p_message_bytes int) returns bigint
language sql immutable parallel safe as $$
    select p_messages * p_message_bytes + least(2228224, 2000::bigint * p_message_bytes)
$$;
comment on function queen.bytes_bound is 'An upper bound of the bytes of a number of messages in a row.';
