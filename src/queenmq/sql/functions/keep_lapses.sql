-- queen.keep_lapses: forget which expired leases held messages that are done.
create function queen.keep_lapses(p_lapses int8multirange[], p_committed bigint, p_acked int8multirange)
returns int8multirange[]
language sql immutable parallel safe as $$
    select case when p_lapses is not null then (
        select array_agg(k.held order by k.n)
          from (select l.held * int8multirange(int8range(p_committed, null)) - p_acked as held, l.n
                  from unnest(p_lapses) with ordinality as l (held, n)) as k
         where not isempty(k.held)) end
$$;
comment on function queen.keep_lapses is 'Expired leases of the messages that are not done.';
