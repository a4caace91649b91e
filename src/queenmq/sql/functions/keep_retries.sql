-- queen.keep_retries: forget the retry counts of messages that are done.
create function queen.keep_retries(p_retries jsonb, p_committed bigint, p_acked int8multirange) returns jsonb
language sql immutable as $$
    select case when p_retries is null then null else (
        select jsonb_object_agg(key, value) from jsonb_each(p_retries)
         where key::bigint >= p_committed and not p_acked @> key::bigint) end
$$;
comment on function queen.keep_retries is 'Retry counts of the messages that are not done.';
