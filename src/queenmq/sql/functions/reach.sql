-- queen.reach: the end of a delivery of n messages that steps over what is already done.
create function queen.reach(p_from bigint, p_count bigint, p_end bigint, p_done int8multirange) returns bigint
language plpgsql immutable as $$
declare
    v_at    bigint := p_from;
    v_left  bigint := p_count;
    v_done  int8range;
begin
    foreach v_done in array array(select unnest(p_done)) loop
        exit when lower(v_done) >= p_end or lower(v_done) - v_at >= v_left;
        v_left := v_left - greatest(0, lower(v_done) - v_at);
        v_at := greatest(v_at, upper(v_done));
    end loop;
    return least(v_at + v_left, p_end);
end $$;
comment on function queen.reach is 'Where a delivery of n messages ends when some in between are done.';
