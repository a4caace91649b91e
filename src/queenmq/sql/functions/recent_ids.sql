-- queen.recent_ids: the transaction ids of partitions inside their queue's dedup window.
--
-- What a pusher reads before it decides about duplicates by itself. next_offset says up to where
-- it then knows the partition; ids that are written meanwhile are told by queen.push_segments.
create function queen.recent_ids(p_partition_ids bigint[], p_now timestamptz default clock_timestamp())
returns table (partition_id bigint, next_offset bigint, first_offset bigint, created_at timestamptz, transaction_ids text)
language sql stable
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set jit = off
as $$
    select l.partition_id, l.next_offset, s.first_offset, s.created_at, s.transaction_ids
      from unnest(p_partition_ids) as i (id)
      join queen.partition_lookup l on l.partition_id = i.id
      join queen.queues q on q.id = l.queue_id
      left join lateral (
          select s.first_offset, s.created_at, s.transaction_ids from queen.segments s
           where s.partition_id = l.partition_id and s.first_offset < l.next_offset and s.transaction_ids is not null
             and q.dedup_window_seconds > 0
             and s.first_offset >= queen.offset_at(l.partition_id, p_now - make_interval(secs => q.dedup_window_seconds))
           order by s.first_offset) as s on true
$$;
comment on function queen.recent_ids is 'Transaction ids of the dedup window, with the offset up to which they are complete.';
