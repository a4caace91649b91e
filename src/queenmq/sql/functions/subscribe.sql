-- queen.subscribe: have a group read something before its first pop; the first mode wins.
--
-- See queen.record_subscription. A group that comes, or reads more than before, makes a queue deeper. A pop that
-- subscribes goes on to the partitions, and there the depth is forgotten, in the order of locks.
--
-- Locks:   those of queen.record_subscription; then those of queen.restart_places, or the depth_bounds rows of limited
--          queues.
-- Raises:  QN421 bad name, QN400 unknown mode, QN425 a timestamp is missing.
create function queen.subscribe(
    p_group      text,
    p_queue      text,
    p_partition  text,
    p_namespace  text,
    p_task       text,
    p_mode       text,
    p_since      timestamptz,
    p_now        timestamptz default clock_timestamp()
) returns void
language plpgsql as $$
declare
    v_recorded  record;
begin
    select * into v_recorded
      from queen.record_subscription(p_group, p_queue, p_partition, p_namespace, p_task, p_mode, p_since, p_now);
    if v_recorded.places <> '{}' then
        perform queen.restart_places(array_fill(v_recorded.group_id, array[cardinality(v_recorded.places)]),
                                     v_recorded.places, p_now);
    else
        perform queen.forget_depth(array(select q.id from queen.queues q
                                          where q.id = any (v_recorded.queue_ids) and q.max_queue_size > 0));
    end if;
end $$;
comment on function queen.subscribe is 'Record a group''s subscription, once.';
