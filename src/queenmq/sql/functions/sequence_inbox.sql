-- queen.sequence_inbox: give the messages pushed inside transactions their places in their partitions.
--
-- In the order of their inbox ids, as far as they are committed: what commits late is placed late. Messages of a full queue
-- stay in the inbox until there is room, in order, and nobody else waits behind them.
--
-- If the rows cannot be placed because of what is in one of them, that row is set aside (queen.set_aside_inbox) and the
-- next call places the others. queen.push writes no such rows, but the owner of the table can.
--
-- Locks:   the advisory lock (20814, 2): one sequencer at a time, another returns at once. Then those of queen.place_inbox.
-- Returns: one row: how many rows left the inbox, how many of them were stored (the others were
--          duplicates), the partitions where some group had been waiting, the queues written to,
--          whether there is more to do at once, and how many rows were set aside.
create function queen.sequence_inbox(
    p_limit  int         default 1000,
    p_now    timestamptz default null    -- null: the clock, read under the locks
) returns table (moved int, stored int, woken bigint[], queues text[], more boolean, set_aside int)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set jit = off
as $$
#variable_conflict use_column
declare
    v_full        text[];
    v_ids         bigint[];    -- three arrays, one element per inbox row that may go
    v_queues      text[];
    v_partitions  text[];
begin
    moved := 0; stored := 0; woken := '{}'; queues := '{}'; more := false; set_aside := 0;
    if pg_try_advisory_xact_lock(20814, 2) then
        v_full := array(select q.name from queen.queues q
                         where q.max_queue_size > 0 and q.name in (select i.queue_name from queen.inbox i)
                           and queen.queue_depth(q.id) >= q.max_queue_size);
        select array_agg(i.id), array_agg(i.queue_name), array_agg(i.partition_name)
          into v_ids, v_queues, v_partitions
          from (select i.id, i.queue_name, i.partition_name from queen.inbox i
                 where i.queue_name <> all (v_full) order by i.id limit p_limit) as i;
    end if;
    if v_ids is null then
        return next;
        return;
    end if;
    more := cardinality(v_ids) = p_limit;

    begin
        select * into moved, stored, woken, queues from queen.place_inbox(v_ids, v_queues, v_partitions, p_now);
    exception when others then
        if not queen.is_row_fault(sqlstate) then
            raise;
        end if;
        set_aside := queen.set_aside_inbox(v_ids, p_now);
        if set_aside = 0 then    -- each of them can be placed alone: it is not the fault of one
            raise;
        end if;
        more := true;
    end;
    return next;
end $$;
comment on function queen.sequence_inbox is 'Move committed inbox rows into their partitions.';
