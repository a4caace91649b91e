-- queen.check_consistency: everything that must hold, asked of every row.
--
-- No rows: healthy. Reads all of it, once; for operators and for the end of every test. Each check
-- sees one moment, so it may be run while the queue is in use.
create function queen.check_consistency(p_now timestamptz default clock_timestamp())
returns table ("check" text, queue text, partition text, detail text)
language sql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
    with logs as (
        select l.partition_id, l.queue_id, q.name as queue, p.name as partition, l.start_offset, l.next_offset,
               l.last_message_at, l.last_message_slot
          from queen.partition_lookup l
          left join queen.partitions p on p.id = l.partition_id
          left join queen.queues q on q.id = l.queue_id
    ), places as (
        select l.queue, l.partition, l.start_offset, l.next_offset, g.name as group_name, c.*,
               c.committed - c.origin + case when isempty(c.acked) then 0 else queen.multirange_size(c.acked) end as done
          from queen.partition_consumers c
          left join logs l on l.partition_id = c.partition_id
          left join queen.queue_groups g on g.id = c.group_id
    ), chained as (
        select s.partition_id, s.queue_id, s.first_offset, s.first_offset + s.message_count as ends, s.created_at,
               lag(s.first_offset + s.message_count) over in_order as previous_ends,
               lag(s.created_at) over in_order as previous_at
          from queen.segments s
         where s.partition_id > 0    -- what is staged has no place yet
        window in_order as (partition by s.partition_id order by s.first_offset)
    )
    select 'stale lookup', l.queue, l.partition,
           format('says [%s, %s) up to %s, stored is [%s, %s) up to %s', l.start_offset, l.next_offset, l.last_message_at,
                  s.starts, s.ends, s.last_at)
      from logs l
      left join (select c.partition_id, min(c.first_offset) as starts, max(c.ends) as ends, max(c.created_at) as last_at
                   from chained c group by c.partition_id) as s on s.partition_id = l.partition_id
     where l.start_offset <> coalesce(s.starts, l.next_offset) or l.next_offset <> coalesce(s.ends, l.next_offset)
        or l.last_message_at <> coalesce(s.last_at, l.last_message_at)
        or (l.last_message_at is null and s.last_at is not null)
        or coalesce(l.last_message_slot, '-infinity') < date_bin('10 minutes', l.last_message_at, 'epoch')
    union all
    select 'partition without lookup', q.name, p.name, format('partition %s', p.id)
      from queen.partitions p join queen.queues q on q.id = p.queue_id
     where not exists (select from queen.partition_lookup l where l.partition_id = p.id and l.queue_id = p.queue_id)
    union all
    select 'lookup without partition', l.queue, l.partition, format('partition %s', l.partition_id)
      from logs l where l.queue is null or l.partition is null
    union all
    select 'lookup twice', l.queue, l.partition, format('%s rows', count(*)) from logs l group by l.partition_id, l.queue, l.partition
    having count(*) > 1
    union all
    select 'place twice', c.queue, c.partition, format('group %s: %s rows', c.group_name, count(*)) from places c
     group by c.partition_id, c.group_id, c.queue, c.partition, c.group_name having count(*) > 1
    union all
    select 'hole or overlap', l.queue, l.partition, format('a segment ends at %s, the next begins at %s', c.previous_ends, c.first_offset)
      from chained c left join logs l on l.partition_id = c.partition_id where c.previous_ends <> c.first_offset
    union all
    select 'time runs backwards', l.queue, l.partition, format('offset %s is older than the one before', c.first_offset)
      from chained c left join logs l on l.partition_id = c.partition_id where c.previous_at > c.created_at
    union all
    select 'segment without partition', l.queue, l.partition, format('partition %s, offset %s', c.partition_id, c.first_offset)
      from chained c left join logs l on l.partition_id = c.partition_id
     where l.partition_id is null or l.queue_id <> c.queue_id
    union all
    select 'cursor out of range', c.queue, c.partition, format('group %s stands at %s of [%s, %s)', c.group_name, c.committed,
                                                               c.start_offset, c.next_offset)
      from places c where c.next_offset is null or c.group_name is null
        or c.committed not between c.start_offset and c.next_offset
    union all
    select 'acknowledged out of range', c.queue, c.partition, format('group %s: %s at %s', c.group_name, c.acked, c.committed)
      from places c where not c.acked <@ int8multirange(int8range(c.committed + 1, greatest(c.committed + 1, c.next_offset)))
    union all
    select 'ledger', c.queue, c.partition,
           format('group %s: %s completed + %s dead-lettered + %s expired, but %s are done', c.group_name, c.completed,
                  c.dead_lettered, c.expired, c.done)
      from places c
     where c.done <> c.completed + c.dead_lettered + c.expired
        or least(c.completed, c.dead_lettered, c.expired) < 0
    union all
    select 'never woken', c.queue, c.partition, format('group %s has read %s of %s and is not ready', c.group_name, c.committed,
                                                       c.next_offset)
      from places c where c.ready_at is null and c.committed < c.next_offset
    union all
    select 'ready for nothing', c.queue, c.partition, format('group %s has read all', c.group_name)
      from places c where c.lease_id is null and c.ready_at > p_now and c.committed >= c.next_offset
    union all
    select 'lease', c.queue, c.partition,
           format('group %s: lease [%s, %s), given back %s, at %s', c.group_name, c.lease_from, c.lease_to, c.nacked, c.committed)
      from places c
     where c.lease_from >= c.lease_to or c.lease_to > c.next_offset or (c.lease_id is null and not isempty(c.nacked))
        or not c.nacked <@ int8multirange(int8range(c.lease_from, greatest(c.lease_from, c.lease_to)))
    union all
    select 'retry counts of done messages', c.queue, c.partition, format('group %s: %s at %s', c.group_name, c.retries, c.committed)
      from places c
     where exists (select from jsonb_object_keys(c.retries) as k
                    where k::bigint < c.committed or c.acked @> k::bigint or k::bigint >= c.next_offset)
    union all
    select 'trace without message', l.queue, l.partition, format('trace %s, offset %s', t.trace_id, t."offset")
      from queen.message_traces t left join logs l on l.partition_id = t.partition_id
     where l.partition_id is null or t."offset" < l.start_offset or t."offset" >= l.next_offset
    union all
    select 'event without message', l.queue, l.partition, format('event %s, offset %s', e.id, e."offset")
      from queen.trace_events e left join logs l on l.partition_id = e.partition_id
     where l.partition_id is null or e."offset" < l.start_offset or e."offset" >= l.next_offset
    union all
    select 'dead letter without partition', l.queue, l.partition, format('dead letter %s', d.id)
      from queen.dead_letters d left join logs l on l.partition_id = d.partition_id and l.queue_id = d.queue_id
     where l.partition_id is null
    union all
    select 'partition not reached', l.queue, l.partition, format('group %s', g.name)
      from queen.queue_groups g join logs l on l.queue_id = g.queue_id
     where g.queue_wide and (g.complete or l.partition_id <= g.reached_partition_id)
       and not exists (select from queen.partition_consumers c
                        where c.partition_id = l.partition_id and c.group_id = g.id)
    union all
    select 'depth bound', q.name, null, format('the bound is %s, the depth %s', d.depth_bound, queen.queue_depth(q.id))
      from queen.depth_bounds d join queen.queues q on q.id = d.queue_id
     where q.max_queue_size > 0 and d.depth_bound < queen.queue_depth(q.id)
    union all
    select 'message set aside', a.queue_name, a.partition_name, format('inbox %s: %s', a.id, a.reason) from queen.inbox_set_aside a
$$;
comment on function queen.check_consistency is 'What does not add up; no rows when all is well.';
