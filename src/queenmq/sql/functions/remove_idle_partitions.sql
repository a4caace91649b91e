-- queen.remove_idle_partitions: remove partitions that nobody has used for a while.
--
-- A push to the name later begins a new partition, at offset 0, for every group of the queue.
--
-- Locks:   the lookup rows, then the consumer rows, both in partition_id order.
-- Raises:  QN400 bad limit.
-- Returns: how many were removed; p_limit means that there may be more.
create function queen.remove_idle_partitions(
    p_idle_seconds  double precision,
    p_limit         int         default 1000,
    p_now           timestamptz default clock_timestamp()
) returns int
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off
as $$
declare
    v_since  timestamptz := p_now - make_interval(secs => p_idle_seconds);
    v_ids    bigint[];
begin
    perform queen.check_limit(p_limit, 100000);
    v_ids := array(select queen.idle_partitions(v_since, p_limit, p_now));
    perform 1 from queen.partition_lookup where partition_id = any (v_ids) order by partition_id for update;
    perform 1 from queen.partition_consumers where partition_id = any (v_ids) order by partition_id, group_id for update;
    v_ids := array(select queen.idle_partitions(v_since, p_limit, p_now, v_ids));    -- they may have been used meanwhile
    perform queen.remove_partitions(v_ids);
    return cardinality(v_ids);
end $$;
comment on function queen.remove_idle_partitions is 'Remove empty partitions unused for some time; returns how many.';
