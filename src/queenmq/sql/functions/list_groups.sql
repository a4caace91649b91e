-- queen.list_groups: every group on every queue, with how far it is behind and what it subscribed to.
--
-- Only partitions with something to do are looked at: the others have no lag. members counts live leases.
-- state is Lagging where the oldest unfinished message is older than five minutes, Dead where messages wait
-- in partitions that nobody has ever served, else Stable. since is null for a group that reads everything. paused is
-- true if deliveries of the queue or to the group are paused.
create function queen.list_groups(
    p_seconds_min  double precision default 0,    -- only groups that are this far behind
    p_now          timestamptz      default clock_timestamp()
) returns table (
    group_name text, queue text, members bigint, messages bigint, seconds double precision, partitions_with_lag bigint,
    state text, mode text, since timestamptz, subscribed_at timestamptz, paused boolean
)
language sql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
    select g.name, q.name, b.members, b.messages, b.seconds, b.partitions,
           case when b.seconds > 300 then 'Lagging'
                when b.messages > 0 and b.members = 0 and b.last_served_at is null then 'Dead'
                else 'Stable' end,
           coalesce(m.mode, 'all'), nullif(m.since, '-infinity'), coalesce(m.created_at, g.created_at),
           q.paused or g.paused
      from queen.queue_groups g
      join queen.queues q on q.id = g.queue_id
     cross join lateral (
         select count(distinct c.lease_id) filter (where c.ready_at > p_now) as members,
                coalesce(sum(n.messages), 0)::bigint as messages, count(*) filter (where n.messages > 0) as partitions,
                max(c.last_served_at) as last_served_at,
                coalesce(greatest(0, extract(epoch from p_now - min(s.created_at)
                                                              filter (where n.messages > 0))), 0)::double precision as seconds
           from queen.partition_consumers c
           join queen.partition_lookup l on l.partition_id = c.partition_id
          cross join lateral (
              select l.next_offset - c.committed
                     - case when isempty(c.acked) then 0 else queen.multirange_size(c.acked) end as messages) as n
           left join lateral (
              select s.created_at from queen.segments s
               where s.partition_id = c.partition_id and s.first_offset <= c.committed
               order by s.first_offset desc limit 1) as s on true
          where c.group_id = g.id and c.ready_at is not null) as b
      left join lateral (
          select m.mode, m.since, m.created_at from queen.consumer_groups_metadata m
           where m.group_name = g.name
             and (m.queue_name = q.name
                  or (m.queue_name = '' and (m.namespace <> '' or m.task <> '')
                      and (m.namespace = '' or m.namespace = q.namespace) and (m.task = '' or m.task = q.task)))
           order by m.partition_name = '' desc, m.queue_name <> '' desc, m.namespace <> '' desc, m.id
           limit 1) as m on true
     where b.seconds >= p_seconds_min
     order by g.name, q.name
$$;
comment on function queen.list_groups is 'Groups with their lag, state and subscription.';
