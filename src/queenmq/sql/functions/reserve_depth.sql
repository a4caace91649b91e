-- queen.reserve_depth: keep a queue within its max_queue_size, or refuse the whole push.
--
-- queue_depths holds an upper bound of the depth. Pushes add to it under its row lock, acks do
-- not touch it; only when the bound would pass the limit is the depth counted and the bound
-- corrected. So the count is paid once per "limit" messages, not once per push, and a refusal is
-- always exact.
--
-- Called by the push that has already moved next_offset by p_messages.
--
-- Locks:   the queue's queue_depths row: pushes to a limited queue wait for each other.
-- Raises:  QN429 with {"queue", "depth", "limit"} as detail.
create function queen.reserve_depth(p_queue_id int, p_messages bigint) returns void
language plpgsql as $$
declare
    v_queue  record;
    v_bound  bigint;
begin
    select name, max_queue_size into v_queue from queen.queues where id = p_queue_id;
    insert into queen.queue_depths (queue_id) values (p_queue_id) on conflict do nothing;
    select depth_bound into v_bound from queen.queue_depths where queue_id = p_queue_id for update;
    if v_bound is null or v_bound + p_messages > v_queue.max_queue_size then
        -- The caller's own messages are in partition_lookup already.
        v_bound := queen.queue_depth(p_queue_id) - p_messages;
        if v_bound + p_messages > v_queue.max_queue_size then
            raise exception 'queue "%" is full: % messages are waiting and % is the limit',
                v_queue.name, v_bound, v_queue.max_queue_size
                using errcode = 'QN429',
                      detail = jsonb_build_object('queue', v_queue.name, 'depth', v_bound,
                                                  'limit', v_queue.max_queue_size)::text;
        end if;
    end if;
    update queen.queue_depths set depth_bound = v_bound + p_messages where queue_id = p_queue_id;
end $$;
comment on function queen.reserve_depth is 'Make room for messages in a limited queue, or raise QN429.';
