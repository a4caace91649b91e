-- New queues keep what every group has finished for 7 days, and dead letters for 30. Queues that exist keep everything, as before:
-- an upgrade deletes nothing.
alter table queen.queues
    add column dead_letter_retention_seconds int not null default 0
        check (dead_letter_retention_seconds between 0 and 86400 * 3650);
alter table queen.queues
    alter column completed_retention_seconds set default 604800,
    alter column dead_letter_retention_seconds set default 2592000;

alter table queen.retention_history add column dead_letters bigint not null default 0;
