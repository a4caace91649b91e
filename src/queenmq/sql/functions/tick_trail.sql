-- queen.tick_trail: where a tick comes from, to be kept with a position outside of the database.
--
-- Returns: [[first tick, token, the tick before it], …], the incarnations of PostgreSQL that took the ticks up to this one,
--          newest first, at most eight. If the tick is lost, queen.common_tick finds with it what the database still has.
create function queen.tick_trail(p_tick bigint) returns jsonb
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    select coalesce(jsonb_agg(jsonb_build_array(i.first_tick, i.token, i.previous_tick) order by i.first_tick desc), '[]')
      from (select * from queen.tick_incarnations i where i.first_tick <= p_tick order by i.first_tick desc limit 8) as i;
$$;
comment on function queen.tick_trail is 'The incarnations of PostgreSQL that took the ticks up to one, newest first.';
