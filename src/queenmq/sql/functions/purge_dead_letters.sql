-- queen.purge_dead_letters: delete dead letters for good.
--
-- The filters narrow each other; without any nothing is deleted, so that forgetting them cannot
-- empty the drawer.
--
-- Locks:   the dead letters, in id order.
-- Raises:  QN400 no filter, QN404 no such queue.
-- Returns: how many were deleted.
create function queen.purge_dead_letters(
    p_ids         bigint[]    default null,
    p_queue       text        default null,
    p_group       text        default null,
    p_older_than  timestamptz default null
) returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue  int := case when p_queue is not null then queen.find_queue(p_queue) end;
    v_count  bigint;
begin
    if num_nonnulls(p_ids, p_queue, p_group, p_older_than) = 0 then
        raise exception 'say which dead letters to purge: ids, a queue, a group or an age' using errcode = 'QN400';
    end if;
    delete from queen.dead_letters
     where id = any (array(select id from queen.dead_letters
                            where (p_ids is null or id = any (p_ids)) and (v_queue is null or queue_id = v_queue)
                              and (p_group is null or group_name = p_group)
                              and (p_older_than is null or failed_at < p_older_than)
                            order by id for update));
    get diagnostics v_count = row_count;
    return v_count;
end $$;
comment on function queen.purge_dead_letters is 'Delete dead letters by id, queue, group or age.';
