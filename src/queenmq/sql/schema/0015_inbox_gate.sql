-- A row of the inbox that cannot be placed waits here, so that it does not hold up the others. One raw row with an empty queue
-- name stopped the messages of everybody, and the payload `1],[2` took the place of the next message.
create table queen.inbox_set_aside (
    id              bigint primary key,
    queue_name      text not null,
    partition_name  text not null,
    transaction_id  text,
    trace_id        uuid,
    headers         json,
    payload         text not null,
    created_at      timestamptz not null,
    reason          text not null,
    set_aside_at    timestamptz not null
);
comment on table queen.inbox_set_aside is
    'Rows of the inbox that could not be placed, with the reason: queen.retry_set_aside, queen.delete_set_aside.';

-- queen.push never wrote these, so they could only be forged.
alter table queen.inbox drop column producer, drop column encrypted;
