-- queen.advance_group: a group that reads in commit order has done everything up to a position.
--
-- Within a partition the order of commits is the order of offsets, so what a position shows of it is all up to an
-- offset; cursors move there, for lag and retention to see. From the position where the group stood before, so the
-- cost is that of what is new. Called again, or with an older position, it changes nothing.
--
-- With p_skip the group begins there: what lies before was never its to read, and the counters start again.
--
-- The caller has the position from a tick, perhaps some time ago. With p_tick and p_mark the call is refused if PostgreSQL
-- has lost that tick since then: nothing after it may be taken for read.
--
-- Locks:   the group's row; lookup rows, shared, in partition_id order; the consumer rows in the same order.
-- Raises:  QN404, QN407 no such queue, group, QN400, QN431 the tick is gone, was lost.
-- Returns: the number of partitions where the group has moved.
create function queen.advance_group(
    p_group  text,
    p_queue  text,
    p_epoch  smallint,
    p_to     pg_snapshot,
    p_skip   boolean     default false,
    p_now    timestamptz default clock_timestamp(),
    p_tick   bigint      default null,
    p_mark   uuid        default null
) returns int
language plpgsql
set jit = off set plan_cache_mode = force_custom_plan
as $$
declare
    v_queue  int := queen.find_queue(p_queue);
    v_group  record;
    v_ids    bigint[];
    v_ends   bigint[];
    v_count  int;
begin
    perform queen.find_tick(p_tick, p_mark);
    select id, coalesce(position_epoch, 0::smallint) as epoch, coalesce(position, '1:1:') as position into v_group
      from queen.queue_groups where queue_id = v_queue and name = p_group for no key update;
    if not found then
        raise exception 'there is no group "%" on queue "%"', p_group, p_queue using errcode = 'QN407';
    end if;
    if (p_epoch, pg_snapshot_xmax(p_to)) < (v_group.epoch, pg_snapshot_xmax(v_group.position)) then
        return 0;
    end if;

    select array_agg(e.partition_id order by e.partition_id), array_agg(e.ends order by e.partition_id)
      into v_ids, v_ends
      from (select s.partition_id, max(s.first_offset + s.message_count) as ends
              from (select s.* from queen.segments s
                     where s.queue_id = v_queue and s.epoch = v_group.epoch
                       and s.xid = any (array(select pg_snapshot_xip(v_group.position)))
                    union all
                    select s.* from queen.segments s
                     where s.queue_id = v_queue
                       and (s.epoch, s.xid) >= (v_group.epoch, pg_snapshot_xmax(v_group.position))
                       and (s.epoch, s.xid) < (p_epoch, pg_snapshot_xmax(p_to))) as s
             where s.epoch < p_epoch or pg_visible_in_snapshot(s.xid, p_to)
             group by s.partition_id) as e;

    perform 1 from queen.partition_lookup where partition_id = any (v_ids) order by partition_id for share;
    perform 1 from queen.partition_consumers where partition_id = any (v_ids) and group_id = v_group.id
      order by partition_id for update;
    update queen.partition_consumers c
       set committed = a.committed, acked = a.acked, lapses = queen.keep_lapses(c.lapses, a.committed, a.acked), nacked = '{}',
           origin = case when p_skip then a.committed else c.origin end,
           completed = case when p_skip then queen.multirange_size(a.acked) else
               c.completed + queen.multirange_size(int8multirange(int8range(c.committed, e.ends)) - c.acked) end,
           dead_lettered = case when p_skip then 0 else c.dead_lettered end,
           expired = case when p_skip then 0 else c.expired end,
           retries = queen.keep_retries(c.retries, a.committed, a.acked),
           lease_id = null, lease_from = null, lease_to = null, last_served_at = p_now,
           ready_at = queen.ready_after(c.partition_id, a.committed, q.delayed_processing_seconds,
                                        q.window_buffer_seconds, p_now)
      from unnest(v_ids, v_ends) as e (id, ends)
      join queen.queues q on q.id = v_queue
      join queen.partition_consumers o on o.partition_id = e.id and o.group_id = v_group.id
     cross join lateral queen.advance(e.ends, o.acked) as a
     where c.partition_id = e.id and c.group_id = v_group.id and c.committed < e.ends;
    get diagnostics v_count = row_count;
    update queen.queue_groups set position_epoch = p_epoch, position = p_to where id = v_group.id;
    return v_count;
end $$;
comment on function queen.advance_group is 'Move a group that reads in commit order to a position; returns the partitions moved.';
