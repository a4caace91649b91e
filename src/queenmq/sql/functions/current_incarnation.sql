-- queen.current_incarnation: the token of this run of PostgreSQL, or null if nobody has made it yet.
--
-- Raises:  25006 on a standby, where nobody may read an unlogged table.
create function queen.current_incarnation() returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if pg_is_in_recovery() then
        raise exception 'this PostgreSQL is a standby' using errcode = 'read_only_sql_transaction';
    end if;
    return (select i.token from queen.incarnations i
             where i.started_at = pg_postmaster_start_time() and i.file = pg_relation_filepath('queen.incarnations'));
end $$;
comment on function queen.current_incarnation is 'The token of this run of PostgreSQL, or null.';
