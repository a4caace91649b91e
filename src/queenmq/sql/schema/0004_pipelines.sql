-- What pipelines remember: that they ran, and what is in an archive.

create table queen.pipeline_runs (
    id           int generated always as identity primary key,
    name         text not null,
    arguments    json not null,
    started_at   timestamptz not null default clock_timestamp(),
    finished_at  timestamptz,
    state        text not null default 'running' check (state in ('running', 'done', 'failed')),
    rows         bigint,
    error        text,
    check ((state = 'running') = (finished_at is null))
);
comment on table queen.pipeline_runs is 'Which pipelines ran, with what arguments, and what became of them.';

-- While a queue has a row here it is being archived: everything up to the tick is in the archive, and
-- retention deletes nothing else.
create table queen.archives (
    queue_id     int primary key references queen.queues on delete cascade,
    location     text not null,
    tick         bigint not null,
    archived_at  timestamptz not null default clock_timestamp()
);
comment on table queen.archives is 'Queues that are archived: where, and up to which tick.';
