-- queen.set_aside_inbox: find the rows of the inbox that cannot be placed, and set them aside.
--
-- Each row is placed alone, and that is undone; its locks are released with it. So a row is tried without another
-- row's locks, and the order of locks does not matter.
--
-- Returns: how many rows were set aside.
create function queen.set_aside_inbox(p_ids bigint[], p_now timestamptz) returns int
language plpgsql as $$
declare
    v_row    queen.inbox;
    v_count  int := 0;
begin
    for v_row in select * from queen.inbox where id = any (p_ids) order by id loop
        begin
            perform queen.place_inbox(array[v_row.id], array[v_row.queue_name], array[v_row.partition_name], p_now);
            raise exception using errcode = 'QN000';    -- undo it
        exception when others then
            continue when sqlstate = 'QN000';
            if not queen.is_row_fault(sqlstate) then
                raise;
            end if;
            insert into queen.inbox_set_aside
            values (v_row.id, v_row.queue_name, v_row.partition_name, v_row.transaction_id, v_row.trace_id, v_row.headers,
                    v_row.payload, v_row.created_at, sqlerrm, coalesce(p_now, clock_timestamp()));
            delete from queen.inbox where id = v_row.id;
            v_count := v_count + 1;
        end;
    end loop;
    return v_count;
end $$;
comment on function queen.set_aside_inbox is 'Set aside the rows of the inbox that cannot be placed; returns how many.';
