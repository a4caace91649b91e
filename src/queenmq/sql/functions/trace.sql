-- queen.trace: the way of a trace through the queues, step by step, with the time each step took.
--
-- Steps that retention has deleted are missing. The next page begins after the last step of this one: p_after. more says
-- that there is a next page: 1,000 steps are one, or as many as have p_bytes_max bytes of payloads and headers; one step
-- comes in any case. total_seconds is the time from the first step to the last one, on all pages.
create function queen.trace(p_trace_id uuid, p_after int default 0, p_bytes_max bigint default null)
returns table (
    step int, queue text, partition text, "offset" bigint, message_id uuid, transaction_id text, created_at timestamptz,
    seconds_since_previous double precision, seconds_since_start double precision, encrypted boolean, payload json,
    total_seconds double precision, more boolean
)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    with steps as materialized (
        select (row_number() over in_time)::int as step, t.partition_id, t."offset",
               extract(epoch from t.created_at - lag(t.created_at) over in_time)::double precision as since_previous,
               extract(epoch from t.created_at - min(t.created_at) over ())::double precision as since_start,
               extract(epoch from max(t.created_at) over () - min(t.created_at) over ())::double precision as total
          from queen.message_traces t
         cross join lateral (select s.first_offset + s.message_count as ends from queen.segments s
                              where s.partition_id = t.partition_id and s.first_offset <= t."offset"
                              order by s.first_offset desc limit 1) as s
         where t.trace_id = p_trace_id and t."offset" < s.ends
        window in_time as (order by t.created_at, t.partition_id, t."offset")
    ), page as (
        select array_agg(s.partition_id order by s.step) as ids, array_agg(s."offset" order by s.step) as offsets
          from steps s where s.step > p_after and s.step <= p_after::bigint + 1000
    )
    select s.step, d.queue, d.partition, d."offset", d.message_id, d.transaction_id, d.created_at, s.since_previous,
           s.since_start, d.encrypted, d.payload, s.total, d.more or exists (select from steps l where l.step > p_after::bigint + 1000)
      from page p
     cross join lateral queen.describe_within(p.ids, p.offsets, p_bytes_max) as d
      join steps s on s.step = p_after + d.n
     order by s.step
$$;
comment on function queen.trace is 'All messages of a trace in time order, with the latency of each step.';
