-- queen.check_payload: refuse a payload that some readers could not read.
--
-- The limits are those of a push over HTTP: a number has at most 330 digits in a row, and at most 200
-- arrays and objects are nested. Beyond them Python, pydantic or Spark cannot read the message. jsonb writes
-- numbers without an exponent, so 1e330 has too many digits as well, but no float has. Both conditions begin with a cheap
-- one that is true for few payloads: a regular expression (255 is the most that it can count to) and the lengths of
-- replacements, which take a fifth of the time of a translate. A payload of up to 330 characters needs no check.
--
-- Raises:  QN422 a number that is too long, or too many levels.
create function queen.check_payload(p_payload jsonb, p_text text) returns void
language plpgsql immutable as $$
declare
    v_digits  text := '%' || repeat('0', 331) || '%';
begin
    if p_text ~ '[0-9]{255}' and translate(p_text, '123456789', '000000000') like v_digits
       and exists (select from jsonb_path_query(p_payload, 'strict $.** ? (@.type() == "number")') as n
                    where translate(n::text, '123456789', '000000000') like v_digits) then
        raise exception 'the payload has a number of more than 330 digits: send it as a string' using errcode = 'QN422';
    elsif octet_length(p_text) > 400
       and 2 * octet_length(p_text) - octet_length(replace(p_text, '[', '')) - octet_length(replace(p_text, '{', '')) > 200
       and jsonb_path_exists(p_payload, 'strict $.**{200 to last} ? (@.type() == "array" || @.type() == "object")') then
        raise exception 'the payload nests more than 200 arrays and objects' using errcode = 'QN422';
    end if;
end $$;
comment on function queen.check_payload is 'Nothing, or QN422 for a payload that some readers could not read.';
