-- Headers: a small object of strings beside a payload, as JSON. In a segment they are an array like trace_ids;
-- null where no message has any, which costs a bit. Old rows stay as they are.
alter table queen.segments add column headers text;
alter table queen.dead_letters add column headers json;
alter table queen.inbox add column headers json;
do $$
begin
    alter table queen.segments alter column headers set compression lz4;
exception when feature_not_supported then    -- as for payloads: a server built without lz4
    alter table queen.segments alter column headers set storage external;
end $$;
comment on table queen.segments is
    'Messages first_offset .. first_offset + message_count - 1 of a partition, written once. payloads is the '
    'JSON text [p0,p1,...]; transaction_ids, trace_ids and headers are JSON arrays of the same length, or null.';
