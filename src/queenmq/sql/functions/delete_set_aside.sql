-- queen.delete_set_aside: delete messages that were set aside, for good.
--
-- Locks:   the rows, in id order.
-- Returns: how many were deleted.
create function queen.delete_set_aside(p_ids bigint[]) returns int
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_count  int;
begin
    delete from queen.inbox_set_aside
     where id = any (array(select id from queen.inbox_set_aside where id = any (p_ids) order by id for update));
    get diagnostics v_count = row_count;
    return v_count;
end $$;
comment on function queen.delete_set_aside is 'Delete messages that were set aside; returns how many.';
