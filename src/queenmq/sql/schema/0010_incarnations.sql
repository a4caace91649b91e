-- Which run of PostgreSQL this is: see queen.incarnation. Unlogged, because PostgreSQL empties such a table whenever it
-- recovers from a crash, promotes a standby or restores a backup. These are the moments at which commits may be lost.
create unlogged table queen.incarnations (
    only_row    boolean primary key default true check (only_row),
    token       text not null,
    started_at  timestamptz not null,    -- pg_postmaster_start_time()
    file        text not null            -- pg_relation_filepath() of this table: names the database, too
);
comment on table queen.incarnations is
    'The token of the running PostgreSQL, on which all that servers remember depends. Truncate it and they forget.';
