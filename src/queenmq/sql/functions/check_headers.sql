-- queen.check_headers: refuse what cannot travel beside a payload, before anything is written.
--
-- Headers are an object of strings. Null and the empty object are none.
--
-- Raises:  QN428 no object, more than 32, a value that is no string, a name not of 1 to 128 characters, over 4096 bytes.
-- Returns: the headers, or null where there are none.
create function queen.check_headers(p_headers jsonb) returns jsonb
language plpgsql immutable strict as $$
declare
    v_count  int;
    v_bytes  int;
    v_wrong  text;
begin
    if p_headers = '{}' then
        return null;
    elsif jsonb_typeof(p_headers) <> 'object' then
        raise exception 'headers are an object of strings, not %', jsonb_typeof(p_headers) using errcode = 'QN428';
    end if;
    select count(*), min(h.name) filter (where jsonb_typeof(h.value) <> 'string' or length(h.name) not between 1 and 128)
      into v_count, v_wrong from jsonb_each(p_headers) as h (name, value);
    v_bytes := octet_length(p_headers::text) - (2 * v_count - 1);    -- without the spaces after : and ,
    if v_count > 32 then
        raise exception 'there are % headers; 32 is the most', v_count using errcode = 'QN428';
    elsif v_wrong is not null then
        raise exception 'header "%" has a value that is no string, or a name not of 1 to 128 characters', left(v_wrong, 128)
            using errcode = 'QN428';
    elsif v_bytes > 4096 then
        raise exception 'the headers have % bytes; 4096 is the most', v_bytes using errcode = 'QN428';
    end if;
    return p_headers;
end $$;
comment on function queen.check_headers is 'The headers themselves, null for none, or QN428.';
