-- queen.queue_depth: how many stored messages of a queue some group still has to finish.
--
-- Per partition the slowest group counts; with no group at all, everything stored counts. One
-- subtraction per partition and group, no message is read.
create function queen.queue_depth(p_queue_id int) returns bigint
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    select coalesce(sum(l.next_offset - greatest(l.start_offset, coalesce(c.committed, l.start_offset))), 0)::bigint
      from queen.partition_lookup l
      left join lateral (
          select min(coalesce(pc.committed, l.start_offset)) as committed
            from queen.queue_groups g
            left join queen.partition_consumers pc on pc.partition_id = l.partition_id and pc.group_id = g.id
           where g.queue_id = p_queue_id and (g.queue_wide or pc.group_id is not null)) as c on true
     where l.queue_id = p_queue_id
$$;
comment on function queen.queue_depth is 'Messages of a queue that some group has not finished.';
