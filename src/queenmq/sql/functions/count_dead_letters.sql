-- queen.count_dead_letters: how many dead letters the same filters of queen.list_dead_letters find.
--
-- Raises:  QN404 no such queue.
create function queen.count_dead_letters(
    p_queue      text        default null,
    p_group      text        default null,
    p_partition  text        default null,
    p_from       timestamptz default null,
    p_to         timestamptz default null
) returns bigint
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_queue  int := case when p_queue is not null then queen.find_queue(p_queue) end;
begin
    return (select count(*) from queen.dead_letters d
             where (v_queue is null or d.queue_id = v_queue)
               and (p_group is null or d.group_name = p_group)
               and (p_partition is null or exists (
                       select from queen.partitions p where p.id = d.partition_id and p.name = p_partition))
               and (p_from is null or d.failed_at >= p_from)
               and (p_to is null or d.failed_at < p_to));
end $$;
comment on function queen.count_dead_letters is 'How many dead letters the filters find.';
