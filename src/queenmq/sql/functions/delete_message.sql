-- queen.delete_message: keep a message from every group that has yet to finish it.
--
-- The log is append-only: the message stays in it until retention takes its segment. But no group
-- gets it any more: it counts as expired for those that had not finished it, and its dead letters
-- are purged, so that it cannot be redriven. A group that begins later, or that is moved back,
-- reads the log as it is. Where no group reads the partition there is nobody to keep it from, and
-- the first one would get it: that is refused.
--
-- Locks:   those of queen.extend_groups, if a group has not reached the partition; the lookup row, shared; the
--          consumer rows, in group_id order; the dead letters, in id order.
-- Raises:  QN406 no such message, QN412 no group reads the partition yet.
-- Returns: how many groups will not get it, and how many dead letters were purged.
create function queen.delete_message(
    p_partition_id    bigint,
    p_transaction_id  text,
    p_now             timestamptz default clock_timestamp(),
    out groups        int,
    out dead_letters  int
)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_offset  bigint;
    v_ids     int[];
begin
    select l."offset" into v_offset
      from queen.locate_messages(array[p_partition_id], array['__QUEUE_MODE__'], array[p_transaction_id], p_now) as l;
    if v_offset is null then
        raise exception 'there is no message "%" in this partition', p_transaction_id using errcode = 'QN406';
    end if;
    v_ids := array(select g.id from queen.partition_lookup l
                     join queen.queue_groups g on g.queue_id = l.queue_id and g.queue_wide
                    where l.partition_id = p_partition_id
                      and not exists (select from queen.partition_consumers c
                                       where c.partition_id = p_partition_id and c.group_id = g.id));
    if v_ids <> '{}' then
        perform queen.extend_groups(v_ids, array_fill(p_partition_id, array[cardinality(v_ids)]), 1, p_now);
    end if;
    perform 1 from queen.partition_lookup where partition_id = p_partition_id for share;
    perform 1 from queen.partition_consumers where partition_id = p_partition_id order by group_id for update;
    if not found then
        raise exception 'no group reads this partition yet, so message "%" cannot be kept from any', p_transaction_id
            using errcode = 'QN412';
    end if;
    v_ids := array(select c.group_id from queen.partition_consumers c
                    where c.partition_id = p_partition_id and v_offset >= c.committed and not c.acked @> v_offset);
    perform queen.pass_over(p_partition_id, v_ids, v_offset, false, p_now);
    groups := cardinality(v_ids);
    delete from queen.dead_letters
     where id = any (array(select d.id from queen.dead_letters d
                            where d.partition_id = p_partition_id and d."offset" = v_offset order by d.id for update));
    get diagnostics dead_letters = row_count;
end $$;
comment on function queen.delete_message is 'Let no group get a message any more; the log keeps it until retention.';
