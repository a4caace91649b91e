-- queen.subscription_mode: the mode that a name stands for.
--
-- The original system has the names from_beginning for all and new-only for new, and an empty mode says nothing, like null.
--
-- Raises:  QN400 unknown mode.
create function queen.subscription_mode(p_mode text) returns text
language plpgsql immutable as $$
begin
    if p_mode is null or p_mode in ('all', 'new', 'timestamp') then
        return p_mode;
    end if;
    case p_mode
        when '' then return null;
        when 'from_beginning' then return 'all';
        when 'new-only' then return 'new';
        else raise exception 'unknown subscription mode "%"; use all, new or timestamp', left(p_mode, 40) using errcode = 'QN400';
    end case;
end $$;
comment on function queen.subscription_mode is 'The mode of a subscription by any of its names; null for none.';
