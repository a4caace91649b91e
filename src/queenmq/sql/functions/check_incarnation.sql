-- queen.check_incarnation: refuse a call that relies on what the caller learned from another incarnation.
--
-- Functions call this before they read or write anything, so that a refused call has done nothing. A null is not
-- checked: the caller relies on nothing it remembers.
--
-- A session keeps the token that it has seen to be right: neither the run of the postmaster nor the database can change
-- within a session, and on a standby nobody can have seen a token. The file of the table says whether the schema is
-- still the same one. So a check is a comparison, and reads no table.
--
-- Returns: true.
-- Raises:  QN430 another incarnation, 25006 on a standby.
create function queen.check_incarnation(p_incarnation text) returns boolean
language plpgsql stable as $$
begin
    if p_incarnation is null or current_setting('queen.incarnation', true)
                                = p_incarnation || pg_relation_filepath('queen.incarnations') then
        return true;
    end if;
    if p_incarnation is distinct from queen.current_incarnation() then
        raise exception 'PostgreSQL was restarted, promoted or restored since the caller read from it'
              using errcode = 'QN430';
    end if;
    perform set_config('queen.incarnation', p_incarnation || pg_relation_filepath('queen.incarnations'), false);
    return true;
end $$;
comment on function queen.check_incarnation is 'Refuse a caller whose memory is of another incarnation; answers true.';
