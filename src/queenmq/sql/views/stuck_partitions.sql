-- queen.stuck_partitions: where something may be going wrong.
--
-- expiring   a live lease with less than 10 s, or a tenth of the queue's lease time, left
-- abandoned  a lease that expired and that nobody has taken over
-- retrying   the next message has failed before, or its lease expired
-- poison     the next message is past the retry limit: one more expired lease and it is given up
--
-- The columns from queue_name on have the names of the original system's query. A lease starts when a pop gets it, and a renewal
-- does not change that; without a lease these columns are null.
create view queen.stuck_partitions as
select q.name as queue, p.name as partition, g.name as group_name, r.reason, c.committed as "offset", n.failures,
       c.lease_id, c.ready_at, extract(epoch from c.ready_at - n.now)::double precision as seconds_left,
       q.name as queue_name, p.name as partition_name, g.name as consumer_group,
       case when c.lease_id is not null then c.ready_at end as lease_expires_at,
       case when c.lease_id is not null then c.last_served_at end as lease_started_at,
       case when c.lease_id is not null then extract(epoch from n.now - c.last_served_at)::double precision end
           as lease_held_seconds
  from queen.partition_consumers c
  join queen.queue_groups g on g.id = c.group_id
  join queen.queues q on q.id = g.queue_id
  join queen.partitions p on p.id = c.partition_id
 cross join lateral (
     select clock_timestamp() as now, k.lapses, k.lapses + coalesce((c.retries ->> c.committed::text)::int, 0) as failures
       from (select queen.count_lapses(c.lapses, c.committed) as lapses) as k) as n
 cross join lateral (
     select case when c.lease_id is not null and c.ready_at <= n.now then 'abandoned'
                 when n.lapses > 0 and n.lapses >= q.retry_limit then 'poison'
                 when c.lease_id is not null
                      and c.ready_at - n.now < make_interval(secs => greatest(10, q.lease_seconds / 10.0)) then 'expiring'
                 when n.failures > 0 then 'retrying' end as reason) as r
 where c.ready_at is not null and r.reason is not null;
comment on view queen.stuck_partitions is 'Partitions whose lease runs out or whose next message keeps failing.';
