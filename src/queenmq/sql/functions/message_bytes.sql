-- queen.message_bytes: what partition_lookup remembers of the size of a segment's messages.
--
-- Their average. A segment of several messages has about 1 MiB at most; if one is larger, all of it counts as one
-- message, so that queen.bytes_bound holds for it too.
create function queen.message_bytes(p_segment_bytes int, p_messages int) returns int
language sql immutable parallel safe as $$
    select case when p_segment_bytes > 1114112 then p_segment_bytes else (p_segment_bytes - 1) / p_messages + 1 end
$$;
comment on function queen.message_bytes is 'The average size of a segment''s messages, or its whole size if it is very large.';
