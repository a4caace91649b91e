-- queen.forget_depth: before a queue's depth grows by other means than a push, have it counted anew.
--
-- A group that goes back, comes or goes makes messages unfinished again; the bound in depth_bounds
-- would be too low. The row is locked even when it holds no bound: a push that counts at this
-- moment would not see what the caller is about to do.
--
-- Locks:   the depth_bounds rows, in queue_id order.
create function queen.forget_depth(p_queue_ids int[]) returns void
language sql as $$
    insert into queen.depth_bounds (queue_id)
    select q.id from queen.queues q where q.id = any (p_queue_ids) order by q.id
    on conflict (queue_id) do update set depth_bound = null
$$;
comment on function queen.forget_depth is 'Make the next push to limited queues count their depth.';
