-- queen.find_tick: a tick that must exist; null or 0 is the beginning, before anything was written.
--
-- Raises:  QN400 there is no such tick, or no longer.
create function queen.find_tick(p_tick bigint) returns queen.ticks
language plpgsql stable as $$
declare
    v_tick  queen.ticks;
begin
    if coalesce(p_tick, 0) = 0 then
        return (0::bigint, 0::smallint, '1:1:'::pg_snapshot, '-infinity'::timestamptz);
    end if;
    select * into v_tick from queen.ticks where id = p_tick;
    if not found then
        raise exception 'there is no tick %; they are kept for 30 days', p_tick using errcode = 'QN400';
    end if;
    return v_tick;
end $$;
comment on function queen.find_tick is 'A tick by its id, or QN400.';
