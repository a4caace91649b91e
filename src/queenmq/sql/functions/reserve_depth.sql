-- queen.reserve_depth: keep a queue within its max_queue_size, or refuse the whole push.
--
-- depth_bounds holds an upper bound of the depth. Pushes add to it under its row lock, acks do
-- not touch it; only when the bound would pass the limit is the depth counted and the bound
-- corrected. So the count is paid once per "limit" messages, not once per push, and a refusal is
-- always exact.
--
-- Called by the push that has already moved next_offset by p_messages.
--
-- Locks:   the queue's depth_bounds row: pushes to a limited queue wait for each other.
-- Raises:  QN429 with {"queue", "depth", "limit"} as detail. If the push alone is larger than
--          the limit, the message says that it can never fit.
create function queen.reserve_depth(p_queue_id int, p_messages bigint) returns void
language plpgsql as $$
declare
    v_queue  record;
    v_bound  bigint;
    v_why    text;
begin
    select name, max_queue_size into v_queue from queen.queues where id = p_queue_id;
    insert into queen.depth_bounds (queue_id) values (p_queue_id) on conflict do nothing;
    select depth_bound into v_bound from queen.depth_bounds where queue_id = p_queue_id for update;
    if v_bound is null or v_bound + p_messages > v_queue.max_queue_size then
        -- The caller's own messages are in partition_lookup already.
        v_bound := queen.queue_depth(p_queue_id) - p_messages;
        if v_bound + p_messages > v_queue.max_queue_size then
            v_why := case when p_messages > v_queue.max_queue_size
                          then 'a push of %s messages can never fit into queue "%s": its limit is %s'
                          when v_bound >= v_queue.max_queue_size
                          then 'queue "%2$s" is full: %4$s messages are waiting and %3$s is the limit'
                          else 'queue "%2$s" has no room for %1$s messages: %4$s are waiting and %3$s is the limit' end;
            raise exception '%', format(v_why, p_messages, v_queue.name, v_queue.max_queue_size, v_bound)
                using errcode = 'QN429',
                      detail = jsonb_build_object('queue', v_queue.name, 'depth', v_bound,
                                                  'limit', v_queue.max_queue_size)::text;
        end if;
    end if;
    update queen.depth_bounds set depth_bound = v_bound + p_messages where queue_id = p_queue_id;
end $$;
comment on function queen.reserve_depth is 'Make room for messages in a limited queue, or raise QN429.';
