-- queen.check_epoch: notice that the database was restored into another cluster.
--
-- Transaction ids start over there, and whatever is ordered by them would be wrong; a new epoch keeps
-- what was written before ahead of all that follows. Called when a server starts, before its first
-- push, and by queen.take_tick.
--
-- Locks:   the row of system_state, only if the epoch changes.
-- Returns: the epoch.
create function queen.check_epoch() returns smallint
language plpgsql as $$
declare
    v_epoch  smallint;
begin
    update queen.system_state s set epoch = s.epoch + 1, system_identifier = c.system_identifier
      from pg_control_system() as c where s.system_identifier <> c.system_identifier;
    select epoch into v_epoch from queen.system_state;
    return v_epoch;
end $$;
comment on function queen.check_epoch is 'Begin a new epoch after a restore into another cluster; returns the epoch.';
