-- queen.forget_calls: nobody will ask about these any more.
--
-- Returns: the number of calls forgotten, at most p_limit.
create function queen.forget_calls(
    p_older_seconds  double precision default 600,
    p_limit          int              default 1000,
    p_now            timestamptz      default clock_timestamp()
) returns int
language plpgsql as $$
declare
    v_count  int;
begin
    delete from queen.calls
     where id = any (array(select id from queen.calls where made_at < p_now - make_interval(secs => p_older_seconds)
                            order by made_at limit p_limit));
    get diagnostics v_count = row_count;
    return v_count;
end $$;
comment on function queen.forget_calls is 'Delete the oldest calls whose callers must have asked by now.';
