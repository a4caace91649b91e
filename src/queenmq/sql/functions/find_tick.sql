-- queen.find_tick: a tick that must exist; null or 0 is the beginning, before anything was written.
--
-- With p_mark it must also be the tick that has this mark: a number may have been given out twice.
--
-- Raises:  QN400 there is no such tick, or no longer, QN431 it is another one.
create function queen.find_tick(p_tick bigint, p_mark uuid default null) returns queen.ticks
language plpgsql stable as $$
declare
    v_tick  queen.ticks;
begin
    if coalesce(p_tick, 0) = 0 then
        return (0::bigint, 0::smallint, '1:1:'::pg_snapshot, '-infinity'::timestamptz, null::uuid);
    end if;
    select * into v_tick from queen.ticks where id = p_tick;
    if v_tick.mark <> p_mark then
        raise exception 'tick % is not the one that this position was taken at: PostgreSQL has lost that one', p_tick
              using errcode = 'QN431';
    elsif v_tick.id is null and p_mark is not null and p_tick > coalesce(    -- ticks are removed in their order
            (select min(t.id) from queen.ticks t where not exists (select from queen.archives a where a.tick = t.id)),
            (select max(t.id) from queen.ticks t), 0) then
        raise exception 'tick %, at which this position was taken, does not exist: PostgreSQL has lost it', p_tick
              using errcode = 'QN431';
    elsif v_tick.id is null then
        raise exception 'there is no tick %; they are kept for 30 days', p_tick using errcode = 'QN400';
    end if;
    return v_tick;
end $$;
comment on function queen.find_tick is 'A tick by its id and mark, or QN400, QN431.';
