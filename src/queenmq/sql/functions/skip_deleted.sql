-- queen.skip_deleted: move groups past messages that are no longer stored.
--
-- What they had not finished below start_offset counts as expired. A lease that has nothing left to
-- deliver ends; any other lease, live or lapsed, goes on with what remains of it. The caller holds
-- the lookup rows and the consumer rows.
--
-- Returns: how many messages were passed over unread, summed over groups.
create function queen.skip_deleted(p_partition_ids bigint[], p_now timestamptz) returns bigint
language sql as $$
    with passed as (
        select c.place, a.committed, a.acked,
               queen.multirange_size(int8multirange(int8range(c.committed, l.start_offset)) - c.acked) as unread,
               coalesce(c.lease_to > a.committed, false) as leased,
               q.delayed_processing_seconds, q.window_buffer_seconds
          from unnest(p_partition_ids) as k (id)    -- offset 0: row by row, whatever the planner believes
         cross join lateral (select l.* from queen.partition_lookup l where l.partition_id = k.id offset 0) as l
         cross join lateral (select c.*, c.ctid as place from queen.partition_consumers c where c.partition_id = k.id offset 0) as c
          join queen.queues q on q.id = l.queue_id
         cross join lateral queen.advance(l.start_offset, c.acked) as a
         where c.committed < l.start_offset
    ), moved as (
        update queen.partition_consumers c
           set committed = p.committed, acked = p.acked, expired = c.expired + p.unread,
               lapses = queen.keep_lapses(c.lapses, p.committed, p.acked),
               retries = queen.keep_retries(c.retries, p.committed, p.acked),
               nacked = case when p.leased then c.nacked else '{}' end,
               lease_id = case when p.leased then c.lease_id end,
               lease_from = case when p.leased then c.lease_from end,
               lease_to = case when p.leased then c.lease_to end,
               ready_at = case when p.leased then c.ready_at
                               else queen.ready_after(c.partition_id, p.committed, p.delayed_processing_seconds,
                                                      p.window_buffer_seconds, p_now) end
          from passed p
         where c.ctid = p.place    -- locked by the caller: it has not moved
        returning p.unread
    )
    select coalesce(sum(unread), 0)::bigint from moved
$$;
comment on function queen.skip_deleted is 'Move cursors below start_offset up to it; returns the unread messages.';
