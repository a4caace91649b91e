-- queen.message_id: the UUIDv7 of a message, computed from where it lives.
--
-- 48 bits of milliseconds, then 34 bits of partition id and 40 bits of offset in the places
-- where RFC 9562 allows anything. Unique by construction, time-ordered, never stored.
create function queen.message_id(p_created_at timestamptz, p_partition_id bigint, p_offset bigint) returns uuid
language sql immutable strict parallel safe as $$
    select encode(
        substring(int8send(floor(extract(epoch from p_created_at) * 1000)::bigint) from 3)
        || int2send((28672 + (p_partition_id >> 22))::int::bit(16)::int::smallint)
        || int8send(((2::bigint << 62) | ((p_partition_id & 4194303) << 40) | p_offset)), 'hex')::uuid
$$;
comment on function queen.message_id is 'The id of the message at an offset of a partition.';
