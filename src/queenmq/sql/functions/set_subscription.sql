-- queen.set_subscription: change since when a group's recorded subscription reads.
--
-- Partitions the group has reached keep their cursors (queen.seek_group moves those); the new moment
-- counts for partitions it has yet to reach, and after queen.delete_group without subscription.
-- p_queue null: all subscriptions of the group.
--
-- Locks:   the subscriptions, in id order.
-- Raises:  QN407 nothing is recorded for this group, QN425 no moment given.
-- Returns: the number of subscriptions changed.
create function queen.set_subscription(
    p_group  text,
    p_queue  text,
    p_since  timestamptz,
    p_now    timestamptz default clock_timestamp()
) returns int
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_count  int;
begin
    if p_since is null or p_since > p_now then
        raise exception 'a subscription begins at a moment that has passed, not at %', coalesce(p_since::text, 'null')
            using errcode = 'QN425';
    end if;
    update queen.consumer_groups_metadata set mode = 'timestamp', since = p_since
     where id = any (array(select id from queen.consumer_groups_metadata
                            where group_name = p_group and (p_queue is null or queue_name = p_queue)
                            order by id for no key update));
    get diagnostics v_count = row_count;
    if v_count = 0 then
        raise exception 'group "%" has no subscription to %', p_group,
            coalesce('queue "' || p_queue || '"', 'anything') using errcode = 'QN407';
    end if;
    return v_count;
end $$;
comment on function queen.set_subscription is 'Move the beginning of a group''s recorded subscription.';
