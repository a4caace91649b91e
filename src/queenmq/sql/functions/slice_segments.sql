-- queen.slice_segments: cut what lies between two positions into slices of about as many messages each.
--
-- For readers that share the work. A slice is a range of segments in the order (queue, epoch, xid, partition,
-- offset), from its first segment up to the first of the next slice; null where the next one is in another
-- queue or epoch. Slices of several queues or epochs may have the same number: they are one reader's work.
-- late: written by transactions that were running at p_from; all others are newer than it.
--
-- There are at most p_slices of them, and no more than are needed for p_messages messages in each.
-- With p_partition_ids, p_since and p_until only what is in these partitions, or was written then, is counted.
--
-- Transactions are counted as the index finds them, and slices begin with a transaction: partition and offset 0. Only
-- those that are large, compared with a slice, are sorted and cut: sorting every segment costs more than reading it.
-- Sums are float8, exact up to 2^53: sums of bigint are numeric.
create function queen.slice_segments(
    p_queue_ids      int[],
    p_from_epoch     smallint,
    p_from           pg_snapshot,
    p_to_epoch       smallint,
    p_to             pg_snapshot,
    p_slices         int,
    p_messages       int         default 1,
    p_partition_ids  bigint[]    default null,
    p_since          timestamptz default null,
    p_until          timestamptz default null
) returns table (
    slice int, queue_id int, epoch smallint, late boolean, first_xid xid8, first_partition_id bigint, first_offset bigint,
    next_xid xid8, next_partition_id bigint, next_offset bigint, segments bigint, messages bigint, bytes bigint
)
language plpgsql stable
set jit = off set plan_cache_mode = force_custom_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
    return query
    with written as materialized (
        select q.id as queue_id, t.* from unnest(p_queue_ids) as q (id)
         cross join lateral (
               select s.epoch, s.xid, true as late, count(*) as segments, sum(s.message_count) as messages,
                      sum(octet_length(s.payloads)) as bytes
                 from queen.segments s    -- running at the first position
                where s.queue_id = q.id and s.epoch = p_from_epoch and s.xid = any (array(select pg_snapshot_xip(p_from)))
                  and (p_partition_ids is null or s.partition_id = any (p_partition_ids))
                  and (p_since is null or s.created_at >= p_since) and (p_until is null or s.created_at < p_until)
                group by s.epoch, s.xid
               union all
               select s.epoch, s.xid, false, count(*), sum(s.message_count), sum(octet_length(s.payloads))
                 from queen.segments s    -- begun after it
                where s.queue_id = q.id and (s.epoch, s.xid) >= (p_from_epoch, pg_snapshot_xmax(p_from))
                  and (s.epoch, s.xid) < (p_to_epoch, pg_snapshot_xmax(p_to))
                  and (p_partition_ids is null or s.partition_id = any (p_partition_ids))
                  and (p_since is null or s.created_at >= p_since) and (p_until is null or s.created_at < p_until)
                group by s.epoch, s.xid) as t
         where t.epoch < p_to_epoch or pg_visible_in_snapshot(t.xid, p_to)
    ), total as materialized (
        select sum(w.segments)::float8 as segments, sum(w.messages)::float8 as messages, sum(w.bytes)::float8 as bytes,
               ceil(sum(w.messages) / least(p_slices, ceil(sum(w.messages)::float8 / p_messages)))::float8 as size
          from written w
    ), units as (    -- what is not cut any further
        select w.queue_id, w.late, w.epoch, w.xid, 0::bigint as partition_id, 0::bigint as first_offset,
               w.segments::float8, w.messages::float8, w.bytes::float8
          from written w, total t where w.messages * 8 <= t.size
        union all
        select w.queue_id, w.late, w.epoch, w.xid, s.partition_id, s.first_offset, 1, s.message_count,
               octet_length(s.payloads)
          from written w, total t, queen.segments s
         where w.messages * 8 > t.size and s.queue_id = w.queue_id and s.epoch = w.epoch and s.xid = w.xid
           and (p_partition_ids is null or s.partition_id = any (p_partition_ids))
           and (p_since is null or s.created_at >= p_since) and (p_until is null or s.created_at < p_until)
    ), dealt as (
        select u.*, sum(u.segments) over in_order - u.segments as segments_before,
               sum(u.messages) over in_order - u.messages as messages_before,
               sum(u.bytes) over in_order - u.bytes as bytes_before, lag(u.messages) over in_order as preceding,
               lag(u.queue_id) over in_order is distinct from u.queue_id or lag(u.late) over in_order <> u.late
               or lag(u.epoch) over in_order <> u.epoch as apart
          from units u
        window in_order as (order by u.queue_id, u.late desc, u.epoch, u.xid, u.partition_id, u.first_offset
                            rows unbounded preceding)
    )
    select floor(d.messages_before / t.size)::int, d.queue_id, d.epoch, d.late, d.xid, d.partition_id, d.first_offset,
           lead(d.xid) over own, lead(d.partition_id) over own, lead(d.first_offset) over own,
           (coalesce(lead(d.segments_before) over in_order, t.segments) - d.segments_before)::bigint,
           (coalesce(lead(d.messages_before) over in_order, t.messages) - d.messages_before)::bigint,
           (coalesce(lead(d.bytes_before) over in_order, t.bytes) - d.bytes_before)::bigint
      from dealt d, total t
     where d.apart or floor(d.messages_before / t.size) > floor((d.messages_before - d.preceding) / t.size)
    window own as (partition by d.queue_id, d.late, d.epoch order by d.xid, d.partition_id, d.first_offset),
           in_order as (order by d.queue_id, d.late desc, d.epoch, d.xid, d.partition_id, d.first_offset)
     order by 1, d.queue_id, d.late desc, d.epoch;
end $$;
comment on function queen.slice_segments is 'Ranges of segments between two positions, balanced by messages.';
