-- queen.clear_queue: drop every stored message of a queue; the queue, its partitions and groups stay.
--
-- What a group had not finished counts as expired for it. Live leases end, and
-- what their holders still acknowledge is done already. Dead letters stay, and so does what waits in the inbox.
--
-- Locks:   the lookup rows, then the consumer rows, both in partition_id order.
-- Raises:  QN404 no such queue.
-- Returns: the number of messages dropped.
create function queen.clear_queue(p_queue text, p_now timestamptz default clock_timestamp()) returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_ids       bigint[];
    v_messages  bigint;
begin
    select array_agg(l.partition_id), sum(l.next_offset - l.start_offset) into v_ids, v_messages
      from (select partition_id, start_offset, next_offset from queen.partition_lookup
             where queue_id = queen.find_queue(p_queue) order by partition_id for no key update) as l;
    perform 1 from queen.partition_consumers where partition_id = any (v_ids) order by partition_id, group_id for update;
    delete from queen.segments where partition_id = any (v_ids);
    delete from queen.message_traces where partition_id = any (v_ids);
    delete from queen.trace_events where partition_id = any (v_ids);
    update queen.partition_lookup set start_offset = next_offset
     where partition_id = any (v_ids) and start_offset < next_offset;
    perform queen.skip_deleted(v_ids, p_now);
    return coalesce(v_messages, 0);
end $$;
comment on function queen.clear_queue is 'Drop all stored messages of a queue; returns how many.';
