-- The whole of what is stored. Code lives in functions/, never here.
--
-- Two tables are hot: partition_lookup changes with every push, partition_consumers
-- with every pop and ack. They are kept narrow, with room for updates in their pages,
-- and are vacuumed by a fixed number of dead rows, not by a share of their size: a queue
-- of a million partitions must not wait for 200,000 dead rows.

create table queen.queues (
    id                          int generated always as identity primary key,
    name                        text not null unique,
    namespace                   text not null default '',
    task                        text not null default '',
    priority                    int not null default 0,
    lease_seconds               int not null default 300    check (lease_seconds between 1 and 86400 * 7),
    retry_limit                 int not null default 3      check (retry_limit between 0 and 1000),
    retry_delay_ms              int not null default 1000   check (retry_delay_ms between 0 and 86400000),
    delayed_processing_seconds  int not null default 0      check (delayed_processing_seconds between 0 and 86400 * 365),
    window_buffer_seconds       int not null default 0      check (window_buffer_seconds between 0 and 86400 * 7),
    max_wait_seconds            int not null default 0      check (max_wait_seconds between 0 and 86400 * 3650),
    max_queue_size              bigint not null default 0   check (max_queue_size >= 0),
    retention_enabled           boolean not null default true,
    retention_seconds           int not null default 0      check (retention_seconds between 0 and 86400 * 3650),
    completed_retention_seconds int not null default 0      check (completed_retention_seconds between 0 and 86400 * 3650),
    dedup_window_seconds        int not null default 3600   check (dedup_window_seconds between 0 and 86400 * 30),
    encryption_enabled          boolean not null default false,
    dead_letter_enabled         boolean not null default true,
    created_at                  timestamptz not null default clock_timestamp()
);
create index queues_namespace_task on queen.queues (namespace, task);
comment on table queen.queues is 'A queue and its settings.';

-- Ids fit into 34 bits: a message id carries them.
create table queen.partitions (
    id          bigint generated always as identity (maxvalue 17179869183) primary key,
    queue_id    int not null references queen.queues,
    name        text not null,
    created_at  timestamptz not null default clock_timestamp(),
    unique (queue_id, name)
);
comment on table queen.partitions is 'A partition''s identity; it never changes.';

-- An index on last_message_at would change with every push. In slots of ten minutes it changes once per slot,
-- and the pushes in between stay updates within their page.
create table queen.partition_lookup (
    partition_id       bigint primary key,
    queue_id           int not null,
    start_offset       bigint not null default 0,
    next_offset        bigint not null default 0,
    last_message_at    timestamptz,
    last_message_slot  timestamptz generated always as (date_bin('10 minutes', last_message_at, 'epoch')) stored,
    check (0 <= start_offset and start_offset <= next_offset)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);
create index partition_lookup_queue on queen.partition_lookup (queue_id, partition_id);
create index partition_lookup_written on queen.partition_lookup (queue_id, last_message_slot, partition_id);
comment on table queen.partition_lookup is
    'A partition''s ends: the oldest message kept and the next offset. Its row lock is the partition''s write lock.';

-- epoch and xid say when a segment was committed, in the order of transactions; xids start
-- over when a dump is restored into a new cluster, and the epoch then grows (queen.take_tick).
create table queen.segments (
    partition_id     bigint not null,
    first_offset     bigint not null,
    message_count    int not null check (message_count > 0),
    queue_id         int not null,
    epoch            smallint not null,
    encrypted        boolean not null default false,
    xid              xid8 not null default pg_current_xact_id(),
    created_at       timestamptz not null,
    flush_id         uuid,
    producer         text,
    transaction_ids  text,
    trace_ids        text,
    payloads         bytea not null,
    primary key (partition_id, first_offset)
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.2,
        autovacuum_vacuum_cost_delay = 0, toast.autovacuum_vacuum_cost_delay = 0, toast_tuple_target = 8160);
do $$
begin
    alter table queen.segments alter column payloads set compression lz4, alter column transaction_ids set compression lz4;
exception when feature_not_supported then    -- a server built without lz4: pglz costs more than it saves
    alter table queen.segments alter column payloads set storage external, alter column transaction_ids set storage external;
end $$;
create index segments_commit_order on queen.segments (queue_id, epoch, xid);
comment on table queen.segments is
    'Messages first_offset .. first_offset + message_count - 1 of a partition, written once. payloads is the '
    'JSON text [p0,p1,...]; transaction_ids and trace_ids are JSON arrays of the same length, or null.';

-- A subscription is recorded at a group's first pop and never changes by itself. Names, not
-- ids: a group may subscribe before the queue exists.
create table queen.consumer_groups_metadata (
    id              bigint generated always as identity primary key,
    group_name      text not null,
    queue_name      text not null default '',
    partition_name  text not null default '',
    namespace       text not null default '',
    task            text not null default '',
    mode            text not null check (mode in ('all', 'new', 'timestamp')),
    since           timestamptz not null,
    created_at      timestamptz not null,
    unique (group_name, queue_name, partition_name, namespace, task)
);
create index consumer_groups_metadata_queue on queen.consumer_groups_metadata (queue_name);
comment on table queen.consumer_groups_metadata is 'Subscriptions: what a group reads, in which mode, since when.';

-- reached_partition_id: every partition up to here has its partition_consumers row. A new
-- group on a queue of a million partitions walks up in chunks; complete says it has arrived.
create table queen.queue_groups (
    id                    int generated always as identity primary key,
    queue_id              int not null references queen.queues,
    name                  text not null,
    queue_wide            boolean not null default false,
    complete              boolean not null default false,
    reached_partition_id  bigint not null default 0,
    created_at            timestamptz not null default clock_timestamp(),
    unique (queue_id, name)
);
comment on table queen.queue_groups is 'A group''s presence on a queue.';

-- Everything below committed is done; acked holds what is done above it. A lease covers
-- [lease_from, lease_to); nacked is what its holder gave back. Everything below origin was
-- never this group's to read. ready_at: see the state diagram in ARCHITECTURE.md.
create table queen.partition_consumers (
    partition_id   bigint not null,
    group_id       int not null,
    committed      bigint not null,
    origin         bigint not null,
    lease_from     bigint,
    lease_to       bigint,
    ready_at       timestamptz,
    lease_id       uuid,
    expiries       int not null default 0,
    completed      bigint not null default 0,
    dead_lettered  bigint not null default 0,
    expired        bigint not null default 0,
    last_served_at timestamptz,
    acked          int8multirange not null default '{}',
    nacked         int8multirange not null default '{}',
    retries        jsonb,
    primary key (partition_id, group_id),
    check (origin <= committed),
    check ((lease_id is null) = (lease_from is null) and (lease_id is null) = (lease_to is null)),
    check (lease_id is null or ready_at is not null)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);
create index partition_consumers_ready on queen.partition_consumers (group_id, ready_at) where ready_at is not null;
create index partition_consumers_lease on queen.partition_consumers (lease_id) where lease_id is not null;
comment on table queen.partition_consumers is 'A group''s place in a partition: its cursor, its lease, when it is ready.';

create table queen.message_traces (
    trace_id      uuid not null,
    partition_id  bigint not null,
    "offset"      bigint not null,
    created_at    timestamptz not null,
    primary key (trace_id, partition_id, "offset")
);
create index message_traces_partition on queen.message_traces (partition_id, "offset");
comment on table queen.message_traces is 'Where the messages of a trace are; only messages that were given a trace id.';

create table queen.trace_events (
    id              bigint generated always as identity primary key,
    partition_id    bigint not null,
    "offset"        bigint not null,
    transaction_id  text not null,
    group_name      text not null,
    event_type      text not null,
    created_at      timestamptz not null,
    data            json not null
);
create index trace_events_message on queen.trace_events (partition_id, "offset");
comment on table queen.trace_events is 'What consumers noted about messages; gone when the message is gone.';

create table queen.trace_event_names (
    name      text not null,
    event_id  bigint not null references queen.trace_events on delete cascade,
    primary key (name, event_id)
);
create index trace_event_names_event on queen.trace_event_names (event_id);
comment on table queen.trace_event_names is 'The names under which an event can be found.';

create table queen.dead_letters (
    id              bigint generated always as identity primary key,
    queue_id        int not null,
    partition_id    bigint not null,
    group_name      text not null,
    "offset"        bigint not null,
    created_at      timestamptz not null,
    failed_at       timestamptz not null,
    retry_count     int not null,
    error           text,
    transaction_id  text,
    trace_id        uuid,
    producer        text,
    encrypted       boolean not null,
    payload         bytea not null
);
create index dead_letters_queue on queen.dead_letters (queue_id, id);
create index dead_letters_message on queen.dead_letters (partition_id, "offset");
comment on table queen.dead_letters is 'Messages a group gave up on, with payload, error and origin.';

-- Most calls can be told from what they left behind; these cannot.
create table queen.calls (
    id       uuid primary key,
    made_at  timestamptz not null,
    answer   jsonb
);
create index calls_made_at on queen.calls (made_at);
comment on table queen.calls is
    'Acks of failures, and transactions that push nothing: kept for a while, for callers that lose the answer.';

create table queen.inbox (
    id              bigint generated always as identity primary key,
    queue_name      text not null,
    partition_name  text not null,
    transaction_id  text,
    trace_id        uuid,
    producer        text,
    encrypted       boolean not null default false,
    payload         text not null,
    created_at      timestamptz not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
comment on table queen.inbox is 'Messages pushed inside an application''s own transaction, on their way to their partitions.';

create table queen.ticks (
    id        bigint generated always as identity primary key,
    epoch     smallint not null,
    snapshot  pg_snapshot not null,
    taken_at  timestamptz not null
);
comment on table queen.ticks is 'Snapshots of the transaction horizon: between two of them lies an exact set of segments.';

-- depth_bound is never below the true depth, so most pushes to a limited queue need no count.
create table queen.queue_depths (
    queue_id     int primary key,
    depth_bound  bigint
) with (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);
comment on table queen.queue_depths is 'For queues with a size limit: an upper bound of the depth; null means count.';

create table queen.retention_history (
    id           bigint generated always as identity primary key,
    queue_id     int not null,
    ran_at       timestamptz not null,
    partitions   int not null,
    segments     int not null,
    messages     bigint not null,
    unread       bigint not null
);
create index retention_history_queue on queen.retention_history (queue_id, id);
comment on table queen.retention_history is 'What retention deleted, and how much of it some group had not read.';

create table queen.stats (
    minute         timestamptz not null,
    queue_id       int not null,
    partitions     bigint not null,
    pushed         bigint not null,
    stored         bigint not null,
    completed      bigint not null,
    dead_lettered  bigint not null,
    expired        bigint not null,
    pending        bigint not null,
    leased         bigint not null,
    retrying       bigint not null,
    dead_letters   bigint not null,
    primary key (queue_id, minute)
);
comment on table queen.stats is
    'Totals of each queue, minute by minute. Differences of pushed, completed, dead_lettered and expired are rates; '
    'the others are what was there.';

-- A server keeps pushes in files while it cannot, or should not, store them. The row of such a file
-- changes in the transaction that stores its messages, and is deleted after the file.
create table queen.spool_positions (
    segment_id  uuid primary key,
    position    bigint not null check (position >= 0)
) with (fillfactor = 50);
comment on table queen.spool_positions is 'How many messages of a server''s spool file are stored.';

create table queen.system_state (
    singleton          boolean primary key default true check (singleton),
    epoch              smallint not null default 1,
    system_identifier  bigint not null,
    id                 uuid not null default gen_random_uuid(),
    push_paused        boolean not null default false,
    pop_paused         boolean not null default false
);
-- Later steps do without the identifier, and not every role may read it: any number will do.
insert into queen.system_state (system_identifier) values (0);
comment on table queen.system_state is
    'Which cluster the transaction ids belong to, which installation of Queen this is, and whether it is in maintenance.';
