-- queen.find_message: one message by its partition and what its producer calls it.
--
-- A message id is always found; a transaction id where queen.locate_messages looks for it.
--
-- Returns: the message as queen.list_messages shows it, or no row.
create function queen.find_message(
    p_partition_id    bigint,
    p_transaction_id  text,
    p_group           text        default '__QUEUE_MODE__',
    p_now             timestamptz default clock_timestamp()
) returns table (
    queue text, partition text, partition_id bigint, "offset" bigint, message_id uuid, transaction_id text,
    trace_id uuid, created_at timestamptz, producer text, encrypted boolean, headers json, payload json, status text
)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    select d.*, queen.message_status(d.partition_id, d."offset", p_group, p_now)
      from queen.locate_messages(array[p_partition_id], array[p_group], array[p_transaction_id], p_now) as l
     cross join lateral queen.describe_messages(array[p_partition_id], array[l."offset"]) as d
     where l."offset" is not null
$$;
comment on function queen.find_message is 'One message by its transaction id or message id, or no row.';
