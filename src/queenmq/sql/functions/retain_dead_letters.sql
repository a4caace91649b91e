-- queen.retain_dead_letters: delete dead letters that a queue no longer has to keep, one batch at a time.
--
-- Those that failed longer than dead_letter_retention_seconds ago. It looks at the p_limit oldest ones, so a call takes no
-- longer when there are many. If it answers p_limit, there may be more.
--
-- Locks:   the dead letters, in id order.
-- Raises:  QN400 bad limit.
-- Returns: how many were deleted.
create function queen.retain_dead_letters(
    p_queue_id  int,
    p_limit     int         default 1000,
    p_now       timestamptz default clock_timestamp()
) returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off
as $$
declare
    v_before  timestamptz;
    v_count   bigint;
begin
    perform queen.check_limit(p_limit, 100000);
    select p_now - make_interval(secs => q.dead_letter_retention_seconds) into v_before
      from queen.queues q where q.id = p_queue_id and q.retention_enabled and q.dead_letter_retention_seconds > 0;
    if v_before is null then
        return 0;
    end if;
    delete from queen.dead_letters
     where id = any (array(select d.id from queen.dead_letters d
                            where d.id = any (array(select o.id from queen.dead_letters o where o.queue_id = p_queue_id
                                                     order by o.id limit p_limit))
                              and d.failed_at < v_before
                            order by d.id for update));
    get diagnostics v_count = row_count;
    if v_count > 0 then
        insert into queen.retention_history (queue_id, ran_at, partitions, segments, messages, unread, dead_letters)
        values (p_queue_id, p_now, 0, 0, 0, 0, v_count);
    end if;
    return v_count;
end $$;
comment on function queen.retain_dead_letters is 'Delete the next batch of dead letters that a queue need not keep.';
