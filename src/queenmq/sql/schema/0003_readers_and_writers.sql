-- What reads whole queues in commit order, and what writes whole batches at once.

-- A group that reads in commit order stands at one position for all partitions (queen.advance_group).
alter table queen.queue_groups
    add column position_epoch smallint,
    add column position pg_snapshot;

-- The newest transaction of which something was deleted: whoever stands before it has lost messages.
alter table queen.retention_history
    add column newest_epoch smallint,
    add column newest_xid xid8;

-- Written twice, here and then as segments: what a crash of PostgreSQL takes away is simply staged again.
create unlogged table queen.staged_segments (
    stage_id         uuid not null,
    n                int not null,
    write_id         text not null,
    partition_name   text not null,
    message_count    int not null,
    encrypted        boolean not null,
    staged_at        timestamptz not null default clock_timestamp(),
    transaction_ids  text not null,
    trace_ids        text,
    payloads         bytea not null,
    primary key (stage_id, n)
);
create index staged_segments_write on queen.staged_segments (write_id);
comment on table queen.staged_segments is
    'Messages of a batch that is being written: invisible until queen.commit_write makes segments of them.';

create table queen.writes (
    id          text primary key,
    epoch       bigint not null,
    written_at  timestamptz not null,
    messages    bigint not null
);
comment on table queen.writes is 'Which batch of a writer was stored last, so that none is stored twice.';
