-- queen.message_position: where a message lives, read from its id.
--
-- Knows nothing of whether the message is still stored. A foreign UUID gives a position that
-- does not exist, or null when it is not of our kind at all.
create function queen.message_position(p_message_id uuid, out partition_id bigint, out "offset" bigint)
language sql immutable strict parallel safe as $$
    select case when get_byte(b, 6) >> 4 = 7 then
               ((get_byte(b, 6) & 15)::bigint << 30) | (get_byte(b, 7)::bigint << 22)
               | ((get_byte(b, 8) & 63)::bigint << 16) | (get_byte(b, 9)::bigint << 8) | get_byte(b, 10)
           end,
           case when get_byte(b, 6) >> 4 = 7 then
               (get_byte(b, 11)::bigint << 32) | (get_byte(b, 12)::bigint << 24) | (get_byte(b, 13)::bigint << 16)
               | (get_byte(b, 14)::bigint << 8) | get_byte(b, 15)
           end
      from uuid_send(p_message_id) as b
$$;
comment on function queen.message_position is 'The partition and offset a message id names.';
