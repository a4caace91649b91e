-- queen.message_sizes: the segments of a push, with the size of their messages (queen.message_bytes).
--
-- Payloads can be large. unnest in the select list hands them on one by one; in the from clause it would copy them all.
create function queen.message_sizes(p_partition_ids bigint[], p_message_counts int[], p_payloads bytea[], p_headers text[])
returns table (id bigint, messages int, message_bytes int)
language sql immutable as $$
    select s.id, s.messages, queen.message_bytes(s.payload_bytes + coalesce(s.header_bytes, 0), s.messages)
      from (select unnest(p_partition_ids) as id, unnest(p_message_counts) as messages,
                   octet_length(unnest(p_payloads)) as payload_bytes, octet_length(unnest(p_headers)) as header_bytes) as s
$$;
comment on function queen.message_sizes is 'Partition, message count and size of messages of each segment of a push.';
