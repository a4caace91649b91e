-- queen.incarnation: a random token that names this run of PostgreSQL with this database and its history.
--
-- Offsets, partition ids and ticks are issued a second time for other messages if PostgreSQL loses commits. Whoever
-- remembers them keeps this token with them, and hands it in with each call that relies on what it remembers
-- (queen.check_incarnation).
--
-- A token counts for one run of the postmaster and one file of the table queen.incarnations:
-- - after a crash, a promotion or the restore of a backup the table is empty: it is unlogged;
-- - after a shutdown, or when the files of a stopped server are replaced, the postmaster has another start time;
-- - a copied database, a schema that was made again and a restored dump have another file.
-- No right is needed that managed services do not give.
--
-- The first caller makes the token, and notices at the same time that the database was restored into another cluster
-- (queen.check_epoch).
--
-- Locks:   the row of queen.incarnations, only if the token is made.
-- Raises:  25006 on a standby.
create function queen.incarnation() returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_token  text;
begin
    loop
        v_token := queen.current_incarnation();
        exit when v_token is not null;
        insert into queen.incarnations as i (token, started_at, file)
        values (gen_random_uuid(), pg_postmaster_start_time(), pg_relation_filepath('queen.incarnations'))
        on conflict (only_row) do update set token = excluded.token, started_at = excluded.started_at, file = excluded.file
         where (i.started_at, i.file) <> (excluded.started_at, excluded.file);
        perform queen.check_epoch();
    end loop;
    return v_token;
end $$;
comment on function queen.incarnation is 'The token of this run of PostgreSQL; made by the first caller.';
