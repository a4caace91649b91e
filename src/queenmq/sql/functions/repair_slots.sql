-- queen.repair_slots: write last_message_slot where a push of an earlier version has not.
--
-- The slot of ten minutes in which a partition was written last is what queen.changed_partitions searches by. It is never
-- earlier than last_message_at says. Until step 0016 PostgreSQL computed it; a push that began before that step and ended
-- after it has left it behind. Servers call this when they begin the upkeep.
--
-- Locks:   the lookup rows, in partition_id order.
-- Returns: the number of rows corrected.
create function queen.repair_slots() returns int
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_ids  bigint[] := array(select l.partition_id from queen.partition_lookup l
                              where coalesce(l.last_message_slot, '-infinity') < date_bin('10 minutes', l.last_message_at, 'epoch'));
begin
    perform 1 from queen.partition_lookup where partition_id = any (v_ids) order by partition_id for no key update;
    update queen.partition_lookup l set last_message_slot = date_bin('10 minutes', l.last_message_at, 'epoch')
     where l.partition_id = any (v_ids);
    return cardinality(v_ids);
end $$;
comment on function queen.repair_slots is 'Correct last_message_slot where it is too early; returns the rows corrected.';
