-- queen.pass_over: move groups past one message that they have not finished, wherever it stands.
--
-- A lease stays with its holder, whose answer for this message then changes nothing; a lease of which
-- nothing is left to answer ends. The caller holds the lookup row, shared, and the consumer rows, and
-- has made sure that none of the groups is done with the message.
create function queen.pass_over(
    p_partition_id bigint, p_group_ids int[], p_offset bigint, p_dead boolean, p_now timestamptz
) returns void
language sql as $$
    update queen.partition_consumers c
       set committed = n.committed, acked = n.acked, lapses = queen.keep_lapses(c.lapses, n.committed, n.acked),
           retries = queen.keep_retries(c.retries, n.committed, n.acked),
           dead_lettered = c.dead_lettered + p_dead::int, expired = c.expired + (not p_dead)::int,
           nacked = case when n.free then '{}' else c.nacked end,
           lease_id = case when n.free then null else c.lease_id end,
           lease_from = case when n.free then null else c.lease_from end,
           lease_to = case when n.free then null else c.lease_to end,
           ready_at = case when not n.free or (c.lease_id is null and not n.moved) then c.ready_at
                           else queen.ready_after(c.partition_id, n.committed, n.delayed_processing_seconds,
                                                  n.window_buffer_seconds, p_now) end
      from (select o.group_id, a.committed, a.acked, a.committed > o.committed as moved,
                   isempty(int8multirange(int8range(greatest(o.lease_from, a.committed),
                                                    greatest(o.lease_from, a.committed, o.lease_to)))
                           - a.acked - o.nacked) as free,
                   q.delayed_processing_seconds, q.window_buffer_seconds
              from queen.partition_consumers o
              join queen.queue_groups g on g.id = o.group_id
              join queen.queues q on q.id = g.queue_id
             cross join lateral queen.advance(
                 o.committed, o.acked + int8multirange(int8range(p_offset, p_offset + 1))) as a
             where o.partition_id = p_partition_id and o.group_id = any (p_group_ids)) as n
     where c.partition_id = p_partition_id and c.group_id = n.group_id
$$;
comment on function queen.pass_over is 'Move groups past one unfinished message: given up, or expired.';
