-- queen.delete_queue: remove a queue and all that was ever stored for it.
--
-- Its messages, groups, subscriptions to it by name, dead letters, traces, statistics, and what
-- waits for it in the inbox. Whoever holds a lease is told QN410 by the next ack, a push to a known
-- partition id QN405; a push by name begins a new queue of that name. Subscriptions to its
-- namespace or task stay.
--
-- Locks:   the queue row; its groups' rows, in id order; its lookup rows, in partition_id order; its depth_bounds row;
--          its consumer rows, in partition_id order; the subscriptions to it, in id order.
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
    perform 1 from queen.queue_groups where queue_id = v_queue order by id for update;
    select array_agg(l.partition_id) into v_ids
      from (select partition_id from queen.partition_lookup where queue_id = v_queue
             order by partition_id for update) as l;
    delete from queen.depth_bounds where queue_id = v_queue;
    perform queen.remove_partitions(coalesce(v_ids, '{}'));
    delete from queen.partitions where queue_id = v_queue;
    delete from queen.queue_groups where queue_id = v_queue;
    delete from queen.consumer_groups_metadata
     where id = any (array(select id from queen.consumer_groups_metadata where queue_name = p_queue order by id for update));
    delete from queen.retention_history where queue_id = v_queue;
    delete from queen.stats where queue_id = v_queue;
    delete from queen.inbox where queue_name = p_queue;
    delete from queen.inbox_set_aside
     where id = any (array(select id from queen.inbox_set_aside where queue_name = p_queue order by id for update));
    delete from queen.queues where id = v_queue;
    return true;
end $$;
comment on function queen.delete_queue is 'Remove a queue with everything in it; false when there was none.';
