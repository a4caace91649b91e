-- queen.check_name: refuse what cannot be a name, before anything is written.
--
-- Raises:  QN421 empty, over 255 characters, control characters, or reserved.
create function queen.check_name(p_name text, p_what text) returns text
language plpgsql immutable as $$
begin
    if p_name is null or p_name = '' then
        raise exception 'the % name is empty', p_what using errcode = 'QN421';
    elsif length(p_name) > 255 then
        raise exception 'the % name has % characters; 255 is the most', p_what, length(p_name) using errcode = 'QN421';
    elsif p_name ~ '[\x01-\x1f\x7f]' then
        raise exception 'the % name contains a control character', p_what using errcode = 'QN421';
    elsif p_what = 'queue' and starts_with(p_name, '__system_') then
        raise exception 'the queue name "%" begins with __system_, which is reserved; choose another name', p_name
            using errcode = 'QN421';
    end if;
    return p_name;
end $$;
comment on function queen.check_name is 'The name itself, or QN421.';
