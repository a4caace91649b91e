-- queen.begin_call: the first thing that a call does which must not happen twice.
--
-- The call holds a shared advisory lock of its id until its transaction ends. A caller that loses the
-- connection calls queen.abandon_call, which needs the same lock exclusively: it waits for a call that
-- runs, and refuses a call that arrives later. No process id is needed for this, so it is exact
-- behind a pooler too, where nobody knows which server process runs a call, and when.
--
-- It stands among the arguments of the function that does the work, which PostgreSQL evaluates first:
--   select * from queen.push_segments(..., p_now => queen.begin_call(4711))
--
-- Nearly always no call is abandoned, and then the sequence has no last value: to read it costs a
-- tenth of a query. The query comes after the lock, so it sees everything that was committed before.
--
-- p_call_id null: nobody will ask about the call, so it just begins.
--
-- Locks:   advisory (20815, hash of the id), shared; never waits.
-- Returns: p_now.
-- Raises:  57014 the call was abandoned.
create function queen.begin_call(p_call_id bigint, p_now timestamptz default null) returns timestamptz
language plpgsql as $$
begin
    if not pg_try_advisory_xact_lock_shared(20815, hashint8(p_call_id)) then
        raise exception 'call % is being abandoned', p_call_id using errcode = '57014';
    end if;
    if pg_sequence_last_value('queen.abandonments') is not null then
        if exists (select from queen.abandoned_calls a where a.id = p_call_id) then
            raise exception 'call % was abandoned', p_call_id using errcode = '57014';
        end if;
    end if;
    return p_now;
end $$;
comment on function queen.begin_call is 'Begin a call that must not happen twice, unless its caller has abandoned it.';
