-- These two have no unique index (step 0007), so a publication could not say which row was updated or deleted, and
-- PostgreSQL would refuse every push and pop while one is there. The whole old row says it. That is written to the WAL
-- only with wal_level = logical. Generated columns are not published, and PostgreSQL 18 refuses them in an identity: from
-- now on functions write last_message_slot.
alter table queen.partition_lookup alter column last_message_slot drop expression;
alter table queen.partition_lookup replica identity full;
alter table queen.partition_consumers replica identity full;
