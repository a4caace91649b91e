-- Calls whose callers lost the connection and have decided that they must not happen any more. A call can arrive late:
-- a pooler may keep it until a server process is free, long after its client has gone. See queen.begin_call.
create table queen.abandoned_calls (
    id            bigint primary key,
    abandoned_at  timestamptz not null
);
comment on table queen.abandoned_calls is
    'Calls that must not happen any more because their callers lost the answer and went on without them.';

-- Has no last value while the table is empty.
create sequence queen.abandonments;
comment on sequence queen.abandonments is 'Counts the rows of abandoned_calls; not called while there is none.';
