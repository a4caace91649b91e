-- queen.message_status: what a group has done with a message.
--
-- pending, leased, completed or dead_letter. completed means that the group will not get it (any
-- more): done, expired, or before its beginning. For a group that does not exist everything is
-- pending.
create function queen.message_status(
    p_partition_id bigint, p_offset bigint, p_group text, p_now timestamptz default clock_timestamp()
) returns text
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    select case when c.group_id is null then 'pending'
                when p_offset >= c.committed and not c.acked @> p_offset then
                    case when c.ready_at > p_now and p_offset >= c.lease_from and p_offset < c.lease_to
                         then 'leased' else 'pending' end
                when exists (select from queen.dead_letters d
                              where d.partition_id = p_partition_id and d."offset" = p_offset and d.group_name = p_group)
                then 'dead_letter' else 'completed' end
      from queen.partition_lookup l
      left join queen.queue_groups g on g.queue_id = l.queue_id and g.name = p_group
      left join queen.partition_consumers c on c.partition_id = l.partition_id and c.group_id = g.id
     where l.partition_id = p_partition_id
$$;
comment on function queen.message_status is 'pending, leased, completed or dead_letter: a message as a group sees it.';
