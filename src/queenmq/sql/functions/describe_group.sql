-- queen.describe_group: where a group stands in the partitions it has reached, furthest behind first.
--
-- p_limit counts for each of its queues.
--
-- Raises:  QN400 bad limit, QN407 no such group on any queue.
create function queen.describe_group(
    p_group  text,
    p_limit  int         default 1000,
    p_now    timestamptz default clock_timestamp()
) returns table (
    queue text, partition text, partition_id bigint, messages bigint, seconds double precision, lease_id uuid,
    last_served_at timestamptz, completed bigint
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
#variable_conflict use_column
begin
    perform queen.check_limit(p_limit, 10000);
    if not exists (select from queen.queue_groups g where g.name = p_group) then
        raise exception 'there is no group "%"', p_group using errcode = 'QN407';
    end if;
    return query
    select q.name, p.name, b.partition_id, b.messages,
           case when b.messages > 0 then greatest(0, coalesce(extract(epoch from p_now - (
               select s.created_at from queen.segments s
                where s.partition_id = b.partition_id and s.first_offset <= b.committed
                order by s.first_offset desc limit 1)), 0)) else 0 end::double precision,
           b.lease_id, b.last_served_at, b.completed
      from queen.queue_groups g
      join queen.queues q on q.id = g.queue_id
     cross join lateral (
         select c.partition_id, c.committed, c.last_served_at, c.completed, n.messages,
                case when c.ready_at > p_now then c.lease_id end as lease_id
           from queen.partition_lookup l
           join queen.partition_consumers c on c.partition_id = l.partition_id and c.group_id = g.id
          cross join lateral (
              select l.next_offset - c.committed
                     - case when isempty(c.acked) then 0 else queen.multirange_size(c.acked) end as messages) as n
          where l.queue_id = g.queue_id
          order by n.messages desc, c.partition_id limit p_limit) as b
      join queen.partitions p on p.id = b.partition_id
     where g.name = p_group
     order by q.name, b.messages desc, b.partition_id;
end $$;
comment on function queen.describe_group is 'A group''s place, lag and lease in each partition.';
