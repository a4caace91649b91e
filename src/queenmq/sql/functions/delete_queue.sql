-- queen.delete_queue: remove a queue and all that was ever stored for it.
--
-- Its messages, groups, subscriptions to it by name, dead letters, traces, statistics, and what
-- waits for it in the inbox. Whoever holds a lease is told QN410 by the next ack, a push to a known
-- partition id QN405; a push by name begins a new queue of that name. Subscriptions to its
-- namespace or task stay.
--
-- Locks:   the queue row; its lookup rows; its queue_depths row; its consumer rows.
-- Returns: whether there was such a queue.
create function queen.delete_queue(p_queue text) returns boolean
language plpgsql as $$
declare
    v_queue  int;
    v_ids    bigint[];
begin
    select id into v_queue from queen.queues where name = p_queue for update;
    if not found then
        return false;
    end if;
    select array_agg(l.partition_id) into v_ids
      from (select partition_id from queen.partition_lookup where queue_id = v_queue
             order by partition_id for update) as l;
    delete from queen.queue_depths where queue_id = v_queue;
    perform queen.remove_partitions(coalesce(v_ids, '{}'));
    delete from queen.partitions where queue_id = v_queue;
    delete from queen.queue_groups where queue_id = v_queue;
    delete from queen.consumer_groups_metadata where queue_name = p_queue;
    delete from queen.retention_history where queue_id = v_queue;
    delete from queen.stats where queue_id = v_queue;
    delete from queen.inbox where queue_name = p_queue;
    delete from queen.queues where id = v_queue;
    return true;
end $$;
comment on function queen.delete_queue is 'Remove a queue with everything in it; false when there was none.';
