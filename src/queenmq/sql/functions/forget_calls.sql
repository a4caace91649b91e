-- queen.forget_calls: nobody will ask about these any more.
--
-- Calls that were abandoned are kept for an hour: no pooler and no network delivers them later than that.
--
-- Locks:   abandoned_calls, once it is empty.
-- Returns: the number of calls forgotten, at most p_limit of each kind.
create function queen.forget_calls(
    p_older_seconds  double precision default 600,
    p_limit          int              default 1000,
    p_now            timestamptz      default clock_timestamp()
) returns int
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_abandoned  int;
    v_count      int;
begin
    delete from queen.abandoned_calls
     where id = any (array(select id from queen.abandoned_calls where abandoned_at < p_now - interval '1 hour' limit p_limit));
    get diagnostics v_abandoned = row_count;
    if pg_sequence_last_value('queen.abandonments') is not null and not exists (select from queen.abandoned_calls) then
        lock table queen.abandoned_calls in share row exclusive mode;    -- waits for a queen.abandon_call in flight
        if not exists (select from queen.abandoned_calls) then
            perform setval('queen.abandonments', 1, false);
        end if;
    end if;
    delete from queen.calls
     where id = any (array(select id from queen.calls where made_at < p_now - make_interval(secs => p_older_seconds)
                            order by made_at limit p_limit for update skip locked));
    get diagnostics v_count = row_count;
    return greatest(v_abandoned, v_count);
end $$;
comment on function queen.forget_calls is 'Delete the oldest calls whose callers must have asked by now.';
