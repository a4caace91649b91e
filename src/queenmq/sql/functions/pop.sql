-- queen.pop: take messages, from SQL.
--
-- One request of queen.pop_batch with the messages it was given. They are leased until acknowledged
-- with queen.ack, or until the lease expires; with p_auto_ack they count as completed when this
-- transaction commits. One call answers at most 8 MiB of messages, or one message: pop again for the rest.
--
-- Raises:  as queen.pop_batch.
create function queen.pop(
    p_queue              text             default null,
    p_group              text             default '__QUEUE_MODE__',
    p_batch              int              default 1,
    p_partition          text             default null,
    p_auto_ack           boolean          default false,
    p_lease_seconds      double precision default null,
    p_subscription_mode  text             default null,    -- see queen.pop_batch
    p_namespace          text             default null,    -- instead of a queue: any queue with this label,
    p_task               text             default null,    -- with this one, or with both
    p_now                timestamptz      default null    -- see queen.pop_batch
) returns table (
    queue text, partition text, partition_id bigint, "offset" bigint, message_id uuid, transaction_id text,
    trace_id uuid, created_at timestamptz, retry_count int, lease_id uuid, headers json,
    payload json
)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_taken    record;
    v_offsets  bigint[];
begin
    for v_taken in
        select * from queen.pop_batch(array[p_queue], array[p_partition], array[p_namespace], array[p_task],
                                      array[p_group], array[p_batch], array[1], array[p_lease_seconds],
                                      array[p_auto_ack], array[gen_random_uuid()], array[p_subscription_mode],
                                      array[null::timestamptz], p_now => p_now, p_bytes_max => 8388608)
    loop
        v_offsets := array(select o from generate_series(v_taken.from_offset, v_taken.to_offset - 1) as o
                            where not v_taken.done @> o);
        return query
        select d.queue, d.partition, d.partition_id, d."offset", d.message_id, d.transaction_id, d.trace_id, d.created_at,
               coalesce((v_taken.retries ->> d."offset"::text)::int, 0), v_taken.lease_id,
               d.headers, d.payload
          from queen.describe_messages(array_fill(v_taken.partition_id, array[cardinality(v_offsets)]), v_offsets) as d
         order by d."offset";
    end loop;
end $$;
comment on function queen.pop is 'Take messages of one partition, leased until acknowledged.';
