-- queen.unread: queues, and partitions of queues, that no consumer group has ever asked for.
--
-- queen.lag knows only groups, so a queue without one would look as if nobody were behind. If groups read single
-- partitions of a queue, the other partitions count here; as soon as one group reads the whole queue, none do.
-- messages is a sum of differences of offsets. The age of the oldest is one look into an index for a queue without
-- groups, and one for each unread partition otherwise.
create view queen.unread as
select q.name as queue, u.partitions, u.pushed, u.messages,
       greatest(0, extract(epoch from clock_timestamp() - u.oldest_at))::double precision as seconds
  from queen.queues q
 cross join lateral (
     select exists (select from queen.queue_groups g where g.queue_id = q.id) as some,
            exists (select from queen.queue_groups g where g.queue_id = q.id and g.queue_wide) as whole) as g
 cross join lateral (
     select count(*) filter (where l.next_offset > l.start_offset) as partitions, sum(l.next_offset)::bigint as pushed,
            sum(l.next_offset - l.start_offset)::bigint as messages,
            (select s.created_at from queen.segments s
              where s.queue_id = q.id order by s.epoch, s.xid limit 1) as oldest_at
       from queen.partition_lookup l
      where not g.some and l.queue_id = q.id
     union all
     select count(*) filter (where l.next_offset > l.start_offset), sum(l.next_offset)::bigint,
            sum(l.next_offset - l.start_offset)::bigint,
            min((select s.created_at from queen.segments s
                  where s.partition_id = l.partition_id and s.first_offset <= l.start_offset
                  order by s.first_offset desc limit 1))
       from queen.partition_lookup l
      where g.some and not g.whole and l.queue_id = q.id
        and not exists (select from queen.partition_consumers c where c.partition_id = l.partition_id)) as u
 where u.messages > 0;
comment on view queen.unread is 'Per queue: stored messages that no consumer group has asked for, and the age of the oldest.';
