-- queen.delete_group: forget where a group stands, on one queue or (null) on all of them.
--
-- Its cursors, retries and leases go: a lease holder's next ack gets QN410. With its subscription, the
-- next pop subscribes anew, in whatever mode it asks for; without, the group starts again from the
-- recorded subscription. On one queue only subscriptions to that queue are its own: one to a namespace
-- or task stays. Dead letters stay.
--
-- Locks:   the queue rows, in name order; the group's rows in queue_groups, in id order; the lookup rows of its
--          partitions, shared, in partition_id order; the depth_bounds rows; the consumer rows in the same order; the
--          subscriptions, in id order.
-- Raises:  QN404 no such queue.
-- Returns: the number of queues the group was on.
create function queen.delete_group(
    p_group              text,
    p_queue              text    default null,
    p_with_subscription  boolean default true
) returns int
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queues  int[];
    v_groups  int[];
begin
    if p_queue is not null then
        perform queen.find_queue(p_queue);
    end if;
    select array_agg(q.id) into v_queues
      from (select q.id from queen.queues q join queen.queue_groups g on g.queue_id = q.id and g.name = p_group
             where p_queue is null or q.name = p_queue
             order by q.name for no key update of q) as q;
    v_groups := array(select id from queen.queue_groups where queue_id = any (v_queues) and name = p_group
                       order by id for update);
    -- A row that has read all may only be locked under its lookup row: queen.wake_groups relies on that.
    perform 1 from queen.partition_lookup
      where partition_id = any (array(select partition_id from queen.partition_consumers where group_id = any (v_groups)))
      order by partition_id for share;
    perform queen.forget_depth(v_queues);
    perform 1 from queen.partition_consumers where group_id = any (v_groups) order by partition_id, group_id for update;
    delete from queen.partition_consumers where group_id = any (v_groups);
    delete from queen.queue_groups where id = any (v_groups);
    if p_with_subscription then
        delete from queen.consumer_groups_metadata
         where id = any (array(select id from queen.consumer_groups_metadata
                                where group_name = p_group and (p_queue is null or queue_name = p_queue)
                                order by id for update));
    end if;
    return cardinality(v_groups);
end $$;
comment on function queen.delete_group is 'Forget a group, with or without its subscription; returns the queues it was on.';
