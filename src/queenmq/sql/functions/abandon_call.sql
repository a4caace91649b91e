-- queen.abandon_call: decide the outcome of a call whose answer was lost.
--
-- If the call is still running, its server process is told to end, and the caller comes back until it
-- has ended. Where that is not allowed (the process belongs to another role), the call ends by itself.
-- From the moment this returns true, the call has happened or never will: queen.begin_call refuses it.
--
-- Locks:   advisory (20815, hash of the id), exclusively; never waits.
-- Returns: false while the call is running.
create function queen.abandon_call(p_call_id bigint, p_now timestamptz default clock_timestamp()) returns boolean
language plpgsql as $$
declare
    v_pid  int;
begin
    if pg_try_advisory_xact_lock(20815, hashint8(p_call_id)) then
        -- Always a write: with synchronous standbys this commit waits until they have that of the call.
        insert into queen.abandoned_calls (id, abandoned_at) values (p_call_id, p_now)
            on conflict (id) do update set abandoned_at = excluded.abandoned_at;
        perform nextval('queen.abandonments');    -- after the row: see queen.forget_calls
        return true;
    end if;
    for v_pid in
        select l.pid from pg_locks l
         where l.locktype = 'advisory' and l.database = (select d.oid from pg_database d where d.datname = current_database())
           and l.classid = 20815 and l.objid = (hashint8(p_call_id)::bigint & 4294967295)::oid and l.objsubid = 2
           and l.pid <> pg_backend_pid()
    loop
        begin
            perform pg_terminate_backend(v_pid);
        exception when insufficient_privilege then
            null;
        end;
    end loop;
    return false;
end $$;
comment on function queen.abandon_call is 'End a call whose answer was lost, or keep it from beginning; false while it is running.';
