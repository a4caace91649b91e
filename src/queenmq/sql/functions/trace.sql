-- queen.trace: the way of a trace through the queues, step by step, with the time each step took.
--
-- Steps that retention has deleted are missing.
create function queen.trace(p_trace_id uuid)
returns table (
    step int, queue text, partition text, "offset" bigint, message_id uuid, transaction_id text, created_at timestamptz,
    seconds_since_previous double precision, seconds_since_start double precision, encrypted boolean, payload json
)
language sql stable as $$
    select (row_number() over in_time)::int, d.queue, d.partition, d."offset", d.message_id, d.transaction_id, d.created_at,
           extract(epoch from d.created_at - lag(d.created_at) over in_time)::double precision,
           extract(epoch from d.created_at - min(d.created_at) over in_time)::double precision, d.encrypted, d.payload
      from (select array_agg(t.partition_id) as ids, array_agg(t."offset") as offsets
              from queen.message_traces t where t.trace_id = p_trace_id) as t
     cross join lateral queen.describe_messages(t.ids, t.offsets) as d
    window in_time as (order by d.created_at, d.partition_id, d."offset")
     order by 1
$$;
comment on function queen.trace is 'All messages of a trace in time order, with the latency of each step.';
