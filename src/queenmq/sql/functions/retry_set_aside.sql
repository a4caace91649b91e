-- queen.retry_set_aside: put messages that were set aside back into the inbox.
--
-- The sequencer finds them within ten seconds and places them behind all that is in the inbox then. A message that still
-- cannot be placed is set aside again, with another number. p_ids null: all that were set aside.
--
-- Locks:   the rows, in id order.
-- Returns: how many messages are in the inbox again.
create function queen.retry_set_aside(p_ids bigint[] default null) returns int
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_count  int;
begin
    with again as (
        delete from queen.inbox_set_aside
         where id = any (array(select id from queen.inbox_set_aside where p_ids is null or id = any (p_ids)
                                order by id for update))
        returning *
    )
    insert into queen.inbox (queue_name, partition_name, transaction_id, trace_id, headers, payload, created_at)
    select queue_name, partition_name, transaction_id, trace_id, headers, payload, created_at
      from again order by id;
    get diagnostics v_count = row_count;
    return v_count;
end $$;
comment on function queen.retry_set_aside is 'Put messages that were set aside back into the inbox; returns how many.';
