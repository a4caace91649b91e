-- queen.multirange_size: how many offsets a set of ranges holds.
create function queen.multirange_size(p_ranges int8multirange) returns bigint
language sql immutable strict parallel safe as $$
    select coalesce(sum(upper(r) - lower(r)), 0)::bigint from unnest(p_ranges) as r
$$;
comment on function queen.multirange_size is 'The number of offsets in a multirange.';
