-- queen.take_tick: note which transactions are finished, if any has written since the last tick.
--
-- A tick is a position in everything that was ever pushed: queen.segments_between reads from one to
-- another. Ticks older than 30 days are removed, a thousand at a time, but never the newest, nor one with which an
-- archive ends.
--
-- The first tick that an incarnation of PostgreSQL takes is noted in queen.tick_incarnations: see queen.common_tick.
--
-- Locks:   those of queen.incarnation; then the row of system_state, so that later ticks have later snapshots.
-- Returns: the newest tick's id.
create function queen.take_tick(p_now timestamptz default clock_timestamp()) returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
    v_token     text := queen.incarnation();
    v_epoch     smallint;
    v_last      queen.ticks;
    v_previous  bigint;
begin
    select epoch into v_epoch from queen.system_state for no key update;
    select * into v_last from queen.ticks order by id desc limit 1;

    -- Not finished at the last tick: begun after it, or listed in it as running. One look into the index for each queue:
    -- an exists would be answered for all queues at once, from every segment there is.
    if v_last.id is null or v_last.epoch <> v_epoch or exists (
        select from queen.queues q
         cross join lateral (select from queen.segments s
                              where s.queue_id = q.id and s.epoch = v_epoch
                                and s.xid >= pg_snapshot_xmax(v_last.snapshot)
                              order by s.xid limit 1) as newer
        union all
        select from pg_snapshot_xip(v_last.snapshot) as x (xid)
          cross join queen.queues q
          join queen.segments s on s.queue_id = q.id and s.epoch = v_epoch and s.xid = x.xid) then
        v_previous := coalesce(v_last.id, 0);
        insert into queen.ticks (epoch, snapshot, taken_at) values (v_epoch, pg_current_snapshot(), p_now)
        returning * into v_last;
        insert into queen.tick_incarnations (first_tick, token, previous_tick)
        select v_last.id, v_token, v_previous
         where v_token is distinct from (select i.token from queen.tick_incarnations i order by i.first_tick desc limit 1);
    end if;

    delete from queen.ticks
     where id in (select id from queen.ticks where id < v_last.id and taken_at < p_now - interval '30 days'
                   and not exists (select from queen.archives a where a.tick = queen.ticks.id)
                   order by id limit 1000);
    if found then
        delete from queen.tick_incarnations
         where first_tick < (select max(i.first_tick) from queen.tick_incarnations i
                              where i.first_tick <= (select min(t.id) from queen.ticks t));
    end if;
    return v_last.id;
end $$;
comment on function queen.take_tick is 'Take a snapshot of the transaction horizon when something was written; returns the newest tick.';
