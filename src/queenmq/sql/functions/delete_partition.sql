-- queen.delete_partition: remove a partition and all that is stored in it.
--
-- Its dead letters and leases go too. The next push to the name begins a new partition, at offset 0,
-- for every group of the queue.
--
-- Locks:   the lookup row, then the consumer rows.
-- Returns: whether there was such a partition.
create function queen.delete_partition(p_queue text, p_partition text) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_id  bigint;
begin
    select l.partition_id into v_id
      from queen.queues q
      join queen.partitions p on p.queue_id = q.id and p.name = p_partition
      join queen.partition_lookup l on l.partition_id = p.id
     where q.name = p_queue for update of l;
    if not found then
        return false;
    end if;
    perform queen.remove_partitions(array[v_id]);
    return true;
end $$;
comment on function queen.delete_partition is 'Remove a partition with everything in it; false when there was none.';
