-- queen.release_lease: give leased messages back untouched, without counting a retry.
--
-- For a pop whose answer nobody received. What was acknowledged before stays acknowledged.
--
-- Locks:   lookup rows, shared, then the lease's rows, both in partition_id order.
-- Returns: the number of partitions given back.
create function queen.release_lease(p_lease_ids uuid[], p_now timestamptz default clock_timestamp()) returns int
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set jit = off
as $$
declare
    v_ids    bigint[];
    v_count  int;
begin
    v_ids := array(select partition_id from queen.partition_consumers where lease_id = any (p_lease_ids));
    perform 1 from queen.partition_lookup where partition_id = any (v_ids) order by partition_id for share;
    perform 1 from queen.partition_consumers where lease_id = any (p_lease_ids) order by partition_id, group_id for update;
    update queen.partition_consumers c
       set lease_id = null, lease_from = null, lease_to = null, nacked = '{}',
           ready_at = queen.ready_after(c.partition_id, c.committed, q.delayed_processing_seconds,
                                        q.window_buffer_seconds, p_now)
      from queen.queue_groups g join queen.queues q on q.id = g.queue_id
     where c.lease_id = any (p_lease_ids) and c.ready_at > p_now and g.id = c.group_id;
    get diagnostics v_count = row_count;
    return v_count;
end $$;
comment on function queen.release_lease is 'End leases as if the pop had not happened.';
