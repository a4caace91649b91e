-- queen.hold_back: after a queue's delay or window changed, say anew when waiting partitions are ready.
--
-- Only partitions that nobody holds and that wait for a later moment: one that is ready now is
-- looked at again by the pop that claims it, and the pause before a retry stays what it was.
--
-- The caller may have changed the size limit as well, so the depth is counted anew.
--
-- Locks:   the lookup rows, shared, in partition_id order; the depth_bounds row; the consumer rows in the same order.
create function queen.hold_back(p_queue_id int, p_now timestamptz) returns void
language plpgsql as $$
declare
    v_ids  bigint[];
begin
    v_ids := array(select distinct c.partition_id
                     from queen.queue_groups g join queen.partition_consumers c on c.group_id = g.id
                    where g.queue_id = p_queue_id and c.ready_at > p_now and c.lease_id is null);
    perform 1 from queen.partition_lookup where partition_id = any (v_ids) order by partition_id for share;
    perform queen.forget_depth(array[p_queue_id]);    -- here, because depth rows are locked before consumer rows
    perform 1 from queen.partition_consumers where partition_id = any (v_ids) order by partition_id, group_id for update;
    update queen.partition_consumers c
       set ready_at = queen.ready_after(c.partition_id, c.committed, q.delayed_processing_seconds,
                                        q.window_buffer_seconds, p_now)
      from queen.queues q
     where q.id = p_queue_id and c.partition_id = any (v_ids) and c.ready_at > p_now and c.lease_id is null
       and coalesce((c.retries ->> c.committed::text)::int, 0) = 0;
end $$;
comment on function queen.hold_back is 'Recompute ready_at of a queue''s waiting partitions.';
