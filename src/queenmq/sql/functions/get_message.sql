-- queen.get_message: one message by its id.
--
-- The id says where the message lives. An id from elsewhere may point to a message by chance, so its
-- milliseconds must be those of the message, too.
--
-- Returns: the message as queen.list_messages shows it, or no row.
create function queen.get_message(
    p_message_id  uuid,
    p_group       text        default '__QUEUE_MODE__',
    p_now         timestamptz default clock_timestamp()
) returns table (
    queue text, partition text, partition_id bigint, "offset" bigint, message_id uuid, transaction_id text,
    trace_id uuid, created_at timestamptz, producer text, encrypted boolean, headers json, payload json, status text
)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    select d.*, queen.message_status(d.partition_id, d."offset", p_group, p_now)
      from queen.message_position(p_message_id) as p
     cross join lateral queen.describe_messages(array[p.partition_id], array[p."offset"]) as d
     where d.message_id = p_message_id
$$;
comment on function queen.get_message is 'One message by its id, or no row.';
