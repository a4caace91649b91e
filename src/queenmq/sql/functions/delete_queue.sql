-- queen.delete_queue: remove a queue and all that was ever stored for it.
--
-- queen.erase_queues does the work. Whoever holds a lease is told QN410 by the next ack, a push to a known
-- partition id QN405; a push by name begins a new queue of that name. Subscriptions to its
-- namespace or task stay.
--
-- Locks:   the queue row; then those of queen.erase_queues.
-- Returns: whether there was such a queue.
create function queen.delete_queue(p_queue text) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from queen.queues where name = p_queue;
    return found;
end $$;
comment on function queen.delete_queue is 'Remove a queue with everything in it; false when there was none.';
