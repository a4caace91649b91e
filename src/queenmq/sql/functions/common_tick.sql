-- queen.common_tick: the last tick before a position that this database still has; the position's own, if it was not lost.
--
-- An incarnation takes ticks one after the other, and nobody else does so with its token. If the database knows an
-- incarnation of the trail (queen.tick_trail), then it has all its ticks up to some number, and those up to there are the
-- position's past. The newest such incarnation decides. Without a mark (a position of an older version) the number counts.
--
-- Returns: a tick; null if there is none.
-- Raises:  QN400 the tick was not lost, but is too old to be kept, QN431 it was lost without a new incarnation.
create function queen.common_tick(p_tick bigint, p_mark uuid, p_trail jsonb default null) returns queen.ticks
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tick      queen.ticks;
    v_from      bigint;
    v_token     text;
    v_previous  bigint;
    v_upto      bigint := p_tick;    -- where the position's ticks of this incarnation end
    v_end       bigint;              -- and where the database's end
begin
    if p_tick = 0 or p_mark is null then
        return queen.find_tick(p_tick);
    end if;
    select * into v_tick from queen.ticks where id = p_tick and mark = p_mark;
    if found then
        return v_tick;
    end if;
    for v_from, v_token, v_previous in
        select (e.value ->> 0)::bigint, e.value ->> 1, (e.value ->> 2)::bigint
          from jsonb_array_elements(p_trail) with ordinality as e (value, n) order by e.n
    loop
        if exists (select from queen.tick_incarnations i where i.first_tick = v_from and i.token = v_token) then
            v_end := coalesce(
                (select i.previous_tick from queen.tick_incarnations i where i.first_tick > v_from order by i.first_tick limit 1),
                (select max(t.id) from queen.ticks t));
            return queen.find_tick(least(v_upto, v_end), case when least(v_upto, v_end) = p_tick then p_mark end);
        end if;
        v_upto := v_previous;
    end loop;
    return null;
end $$;
comment on function queen.common_tick is 'The last tick that a position kept elsewhere and this database have in common.';
