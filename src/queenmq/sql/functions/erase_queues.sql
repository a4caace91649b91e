-- queen.erase_queues: remove all that was ever stored for queues whose rows are deleted.
--
-- Their messages, groups, subscriptions to them by name, dead letters, traces, statistics, and what waits for them in the
-- inbox. It runs once for a statement, after the queues' own rows, so `delete from queen.queues where …` does the same as
-- queen.delete_queue, for all its queues in the order of locks. Only the queues' rows are locked in the order in which
-- PostgreSQL finds them: such a statement for several queues may deadlock with a call that locks the same queues by name.
--
-- Locks:   the groups' rows, in id order; the lookup rows, in partition_id order; the depth_bounds rows, in queue_id order;
--          the consumer rows, in partition_id order; the subscriptions to the queues, in id order.
create function queen.erase_queues() returns trigger
language plpgsql as $$
declare
    v_queues      int[];
    v_names       text[];
    v_partitions  bigint[];
begin
    select array_agg(g.id), array_agg(g.name) into v_queues, v_names from gone g;
    if v_queues is null then
        return null;
    end if;
    perform 1 from queen.queue_groups where queue_id = any (v_queues) order by id for update;
    v_partitions := array(select l.partition_id
                            from (select partition_id from queen.partition_lookup where queue_id = any (v_queues)
                                   order by partition_id for update) as l);
    perform 1 from queen.depth_bounds where queue_id = any (v_queues) order by queue_id for update;
    delete from queen.depth_bounds where queue_id = any (v_queues);
    perform queen.remove_partitions(v_partitions);
    delete from queen.partitions where queue_id = any (v_queues);
    delete from queen.queue_groups where queue_id = any (v_queues);
    delete from queen.consumer_groups_metadata
     where id = any (array(select id from queen.consumer_groups_metadata where queue_name = any (v_names)
                            order by id for update));
    delete from queen.retention_history where queue_id = any (v_queues);
    delete from queen.stats where queue_id = any (v_queues);
    delete from queen.inbox where queue_name = any (v_names);
    delete from queen.inbox_set_aside
     where id = any (array(select id from queen.inbox_set_aside where queue_name = any (v_names) order by id for update));
    return null;
end $$;
comment on function queen.erase_queues is 'The AFTER DELETE trigger of queen.queues: nothing of a deleted queue is left.';

create trigger erase_queues after delete on queen.queues
    referencing old table as gone for each statement execute function queen.erase_queues();
