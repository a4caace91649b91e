-- queen.is_row_fault: whether an error says that something is wrong with a row, and not with the server or the moment.
--
-- Deadlocks, locks that are not to be had, cancelled statements, a full disk or missing memory (classes 40, 53, 55, 57, 58,
-- XX), rights (42501), a read-only server (25006) and a full queue (QN429) go away by themselves or by an operator.
create function queen.is_row_fault(p_sqlstate text) returns boolean
language sql immutable strict parallel safe as $$
    select left(p_sqlstate, 2) not in ('40', '53', '55', '57', '58', 'XX') and p_sqlstate not in ('42501', '25006', 'QN429')
$$;
comment on function queen.is_row_fault is 'Whether a SQLSTATE blames a row.';
