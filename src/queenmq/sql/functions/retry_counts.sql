-- queen.retry_counts: how often each message of a range was retried: failures, and leases that expired.
--
-- Returns: an object of offset -> count. Messages that are missing in it were never retried.
create function queen.retry_counts(p_lapses int8multirange[], p_retries jsonb, p_from bigint, p_to bigint) returns jsonb
language sql immutable parallel safe as $$
    select case when p_lapses is null then p_retries else (
        select jsonb_object_agg(o::text, queen.count_lapses(p_lapses, o) + coalesce((p_retries ->> o::text)::int, 0))
          from generate_series(p_from, p_to - 1) as o) end
$$;
comment on function queen.retry_counts is 'Retry counts of the messages of a range, by offset.';
