-- queen.remove_partitions: erase partitions with everything that belongs to them.
--
-- The caller holds their lookup rows for update. A lease holder's next ack finds its lease gone; a
-- pusher that knows a partition's id is told that it does not exist.
--
-- Locks:   the consumer rows, in partition_id order; the dead letters, in id order.
create function queen.remove_partitions(p_partition_ids bigint[]) returns void
language plpgsql
set enable_seqscan = off set jit = off
as $$
begin
    perform 1 from queen.partition_consumers where partition_id = any (p_partition_ids)
      order by partition_id, group_id for update;
    delete from queen.partition_consumers where partition_id = any (p_partition_ids);
    delete from queen.segments where partition_id = any (p_partition_ids);
    delete from queen.message_traces where partition_id = any (p_partition_ids);
    delete from queen.trace_events where partition_id = any (p_partition_ids);
    delete from queen.dead_letters
     where id = any (array(select id from queen.dead_letters where partition_id = any (p_partition_ids) order by id for update));
    delete from queen.partition_lookup where partition_id = any (p_partition_ids);
    delete from queen.partitions where id = any (p_partition_ids);
end $$;
comment on function queen.remove_partitions is 'Delete all rows of partitions whose lookup rows are locked.';
