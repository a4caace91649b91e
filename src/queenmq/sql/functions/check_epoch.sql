-- queen.check_epoch: notice that transaction ids have started over, as in a dump that was restored into another cluster.
--
-- Whatever is ordered by transaction ids would be wrong then; a new epoch keeps what was written before ahead of all
-- that follows. Whoever sees a committed row has a snapshot that lies beyond its transaction. So if a segment or the
-- newest tick is of a transaction that this snapshot does not reach, it was not written in this cluster. If the
-- cluster has come further than all that is stored, transaction ids go on rising, and no new epoch is needed.
-- Promotions and restored backups of a whole cluster keep the order of what they have.
--
-- Called by queen.incarnation when PostgreSQL was started, promoted or restored. Call it after restoring a dump, before
-- the first push.
--
-- Locks:   the row of system_state, only if the epoch changes.
-- Returns: the epoch.
create function queen.check_epoch() returns smallint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
    v_epoch  smallint;
begin
    -- Rows and horizon are of one snapshot, so this is one statement.
    update queen.system_state s set epoch = s.epoch + 1
     where exists (select from (select * from queen.ticks order by id desc limit 1) as t
                    where t.epoch = s.epoch and pg_snapshot_xmax(t.snapshot) > pg_snapshot_xmax(pg_current_snapshot()))
        or exists (select from queen.queues q
                    cross join lateral (select from queen.segments g
                                         where g.queue_id = q.id and g.epoch = s.epoch
                                           and g.xid >= pg_snapshot_xmax(pg_current_snapshot())
                                           and g.xid is distinct from pg_current_xact_id_if_assigned()
                                         order by g.xid limit 1) as beyond);
    select epoch into v_epoch from queen.system_state;
    return v_epoch;
end $$;
comment on function queen.check_epoch is 'Begin a new epoch if transaction ids have started over; returns the epoch.';
