-- queen.extend_group: create the next chunk of one group's partition rows.
--
-- See queen.extend_groups.
--
-- Locks:   those of queen.extend_groups.
-- Returns: the number of partitions reached by this call; 0 when the group is complete.
create function queen.extend_group(
    p_group_id      int,
    p_limit         int default 1000,
    p_partition_id  bigint default null,
    p_now           timestamptz default clock_timestamp()
) returns int
language sql security definer
set search_path = pg_catalog, pg_temp
as $$
    select queen.extend_groups(array[p_group_id], array[p_partition_id], p_limit, p_now)
$$;
comment on function queen.extend_group is 'Create the next chunk of a new group''s partition rows.';
