-- queen.position_at: the snapshot that a position in the order of commits stands for.
--
-- A position is a tick (null or 0: the beginning), or only a part of what a tick shows: what was written before
-- a transaction. Readers that take a large step in several small ones stand at such positions in between.
--
-- Raises:  QN400 there is no such tick, or no longer, QN431 it has another mark than p_mark.
create function queen.position_at(
    p_tick          bigint,
    p_before_epoch  smallint default null,
    p_before_xid    xid8     default null,
    p_mark          uuid     default null,
    out epoch       smallint,
    out snapshot    pg_snapshot
)
language plpgsql stable as $$
declare
    v_tick  queen.ticks := queen.find_tick(p_tick, p_mark);
    v_open  xid8[];
begin
    epoch := v_tick.epoch;
    snapshot := v_tick.snapshot;
    if (p_before_epoch, p_before_xid) < (v_tick.epoch, pg_snapshot_xmax(v_tick.snapshot)) then
        epoch := p_before_epoch;
        if epoch = v_tick.epoch then
            v_open := array(select x from pg_snapshot_xip(v_tick.snapshot) as x where x < p_before_xid order by x);
        end if;
        snapshot := format('%s:%s:%s', coalesce(v_open[1], p_before_xid), p_before_xid,
                           array_to_string(v_open, ','))::pg_snapshot;
    end if;
end $$;
comment on function queen.position_at is 'The epoch and snapshot of a tick, or of a tick up to a transaction.';
