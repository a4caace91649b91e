-- queen.pending_partitions: where the work of a queue is, the fullest partitions first.
--
-- For one group what it has yet to take; without a group, what the slowest has, or everything
-- stored where no group reads the queue. Leased messages are not pending, as in queen.partition_totals. Only partitions that
-- are not read to their end are looked at. partitions_pending and pending_total count all of them, not only those on this page.
--
-- Raises:  QN400 bad limit, QN404, QN407 no such queue, group.
create function queen.pending_partitions(p_queue text, p_group text default null, p_limit int default 100,
                                         p_now timestamptz default clock_timestamp())
returns table (partition text, partition_id bigint, pending bigint, partitions_pending bigint, pending_total bigint)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
    v_queue   int := queen.find_queue(p_queue);
    v_groups  int[];
begin
    perform queen.check_limit(p_limit, 10000);
    v_groups := array(select g.id from queen.queue_groups g
                       where g.queue_id = v_queue and (p_group is null or g.name = p_group));
    if p_group is not null and v_groups = '{}' then
        raise exception 'there is no group "%" on queue "%"', p_group, p_queue using errcode = 'QN407';
    end if;
    return query
    with undone as (
        select c.partition_id, max(l.next_offset - c.committed - case when isempty(c.acked) then 0
                                                                      else queen.multirange_size(c.acked) end) as undone,
               max(case when c.lease_id is null or c.ready_at <= p_now then 0
                        else queen.multirange_size(int8multirange(int8range(greatest(c.lease_from, c.committed),
                                                                            greatest(c.lease_from, c.committed, c.lease_to)))
                                                   - c.acked - c.nacked) end) as leased
          from queen.partition_consumers c
          join queen.partition_lookup l on l.partition_id = c.partition_id
         where c.group_id = any (v_groups) and c.ready_at is not null and c.committed < l.next_offset
         group by c.partition_id
        union all
        select l.partition_id, l.next_offset - l.start_offset, 0 from queen.partition_lookup l
         where v_groups = '{}' and l.queue_id = v_queue and l.next_offset > l.start_offset
    ), counted as (
        select u.partition_id, u.undone - u.leased as pending, count(*) over () as partitions,
               (sum(u.undone - u.leased) over ())::bigint as total
          from undone u where u.undone > u.leased order by 2 desc, u.partition_id limit p_limit
    )
    select p.name, c.partition_id, c.pending, c.partitions, c.total
      from counted c join queen.partitions p on p.id = c.partition_id
     order by c.pending desc, c.partition_id;
end $$;
comment on function queen.pending_partitions is 'Partitions with messages that nobody has taken yet, the fullest first, with totals.';
