-- queen.check_limit: refuse a page size that is no page size.
--
-- Raises:  QN400 null, below 1 or above the most a call may ask for.
create function queen.check_limit(p_limit int, p_most int) returns void
language plpgsql immutable as $$
begin
    if p_limit is null or p_limit < 1 or p_limit > p_most then
        raise exception 'the limit is %; it must be between 1 and %', coalesce(p_limit::text, 'null'), p_most
            using errcode = 'QN400';
    end if;
end $$;
comment on function queen.check_limit is 'QN400 unless a limit lies between 1 and the most allowed.';
