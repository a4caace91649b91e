-- queen.check_options: refuse queue settings that are unknown, of the wrong type or out of range.
--
-- The names are those of the columns of queen.queues; the ranges are those of its constraints, said
-- in a sentence.
--
-- Raises:  QN423 naming the option, the value and what is allowed.
create function queen.check_options(p_options jsonb) returns void
language plpgsql immutable as $$
declare
    v_bad  record;
begin
    if jsonb_typeof(p_options) is distinct from 'object' then
        raise exception 'queue options are a JSON object such as {"lease_seconds": 60}, not %',
            coalesce(p_options::text, 'null') using errcode = 'QN423';
    end if;
    select o.key, o.value, a.least, a.most into v_bad
      from jsonb_each(p_options) as o
      left join (values ('lease_seconds', 1, 604800), ('retry_limit', 0, 1000), ('retry_delay_ms', 0, 86400000),
                        ('retry_backoff', 1, 10),
                        ('priority', -1000000, 1000000), ('delayed_processing_seconds', 0, 31536000),
                        ('window_buffer_seconds', 0, 604800), ('max_wait_seconds', 0, 315360000),
                        ('ttl_seconds', 0, 315360000), ('max_queue_size', 0, 1000000000000), ('retention_seconds', 0, 315360000),
                        ('completed_retention_seconds', 0, 315360000), ('dead_letter_retention_seconds', 0, 315360000),
                        ('dedup_window_seconds', 0, 2592000),
                        ('retention_enabled', null, null), ('encryption_enabled', null, null),
                        ('dead_letter_enabled', null, null)) as a (key, least, most) on a.key = o.key
     where a.key is null
        or case when a.least is null then jsonb_typeof(o.value) <> 'boolean'
                when jsonb_typeof(o.value) <> 'number' then true
                else o.value::numeric not between a.least and a.most or o.value::numeric % 1 <> 0 end
     order by o.key limit 1;
    if not found then
        return;
    elsif v_bad.least is not null then
        raise exception 'option % is %; it must be a whole number between % and %',
            v_bad.key, v_bad.value, v_bad.least, v_bad.most using errcode = 'QN423';
    elsif v_bad.key in ('retention_enabled', 'encryption_enabled', 'dead_letter_enabled') then
        raise exception 'option % is %; it must be true or false', v_bad.key, v_bad.value using errcode = 'QN423';
    end if;
    raise exception 'there is no option % (its value was %); there are lease_seconds, retry_limit, retry_delay_ms, retry_backoff, '
                    'priority, delayed_processing_seconds, window_buffer_seconds, max_wait_seconds, ttl_seconds, max_queue_size, '
                    'retention_enabled, retention_seconds, completed_retention_seconds, dead_letter_retention_seconds, '
                    'dedup_window_seconds, encryption_enabled, dead_letter_enabled', v_bad.key, v_bad.value using errcode = 'QN423';
end $$;
comment on function queen.check_options is 'QN423 unless every queue option is known and in its range.';
