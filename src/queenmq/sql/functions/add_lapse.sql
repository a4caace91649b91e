-- queen.add_lapse: count an expired lease for the messages that its holder had not answered.
--
-- Without a lease (p_to is null) nothing changes. The list is bounded: only the newest 1,001 leases are kept, one more
-- than the largest retry limit.
create function queen.add_lapse(
    p_lapses int8multirange[], p_from bigint, p_to bigint, p_committed bigint, p_answered int8multirange
) returns int8multirange[]
language sql immutable parallel safe as $$
    select case when isempty(l.held) then p_lapses
                else (p_lapses || l.held)[greatest(1, coalesce(cardinality(p_lapses), 0) - 999) :] end
      from (select int8multirange(int8range(least(greatest(p_from, p_committed), p_to), p_to)) - p_answered
                   as held where p_to is not null
            union all select '{}' where p_to is null) as l
$$;
comment on function queen.add_lapse is 'Expired leases with one more, for the messages it held.';
