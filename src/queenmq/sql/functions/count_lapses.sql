-- queen.count_lapses: how many expired leases held a message.
--
-- p_lapses is partition_consumers.lapses: for each expired lease, the messages that its holder had not answered.
create function queen.count_lapses(p_lapses int8multirange[], p_offset bigint) returns int
language sql immutable parallel safe as $$
    select case when p_lapses is null then 0 else (select count(*)::int from unnest(p_lapses) as l (held) where l.held @> p_offset) end
$$;
comment on function queen.count_lapses is 'The number of expired leases that held a message.';
