-- queen.slice_segments: cut what lies between two positions into slices of about as many messages each.
--
-- For readers that share the work. A slice is a range of segments in the order (queue, epoch, xid, partition,
-- offset), from its first segment up to the first of the next slice; null where the next one is in another
-- queue or epoch. Slices of several queues or epochs may have the same number: they are one reader's work.
-- late: written by transactions that were running at p_from; all others are newer than it.
--
-- There are at most p_slices of them, and fewer rather than with less than p_messages_min messages each.
-- With p_partition_ids, p_since and p_until only what is in these partitions, or was written then, is counted.
create function queen.slice_segments(
    p_queue_ids      int[],
    p_from_epoch     smallint,
    p_from           pg_snapshot,
    p_to_epoch       smallint,
    p_to             pg_snapshot,
    p_slices         int,
    p_messages_min   int         default 1,
    p_partition_ids  bigint[]    default null,
    p_since          timestamptz default null,
    p_until          timestamptz default null
) returns table (
    slice int, queue_id int, epoch smallint, late boolean, first_xid xid8, first_partition_id bigint, first_offset bigint,
    next_xid xid8, next_partition_id bigint, next_offset bigint, segments bigint, messages bigint, bytes bigint
)
language plpgsql stable
set jit = off set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
begin
    return query
    with found as (
        select s.*, true as late from queen.segments s    -- running at the first position
         where s.queue_id = any (p_queue_ids) and s.epoch = p_from_epoch
           and s.xid = any (array(select pg_snapshot_xip(p_from)))
        union all
        select s.*, false from queen.segments s    -- begun after it, in its epoch
         where s.queue_id = any (p_queue_ids) and s.epoch = p_from_epoch and s.xid >= pg_snapshot_xmax(p_from)
           and (p_from_epoch < p_to_epoch or s.xid < pg_snapshot_xmax(p_to))
        union all
        select s.*, false from queen.segments s    -- in later epochs
         where s.queue_id = any (p_queue_ids) and s.epoch > p_from_epoch
           and (s.epoch < p_to_epoch or s.epoch = p_to_epoch and s.xid < pg_snapshot_xmax(p_to))
    ), wanted as (
        select f.queue_id, f.epoch, f.late, f.xid, f.partition_id, f.first_offset, f.message_count,
               octet_length(f.payloads) as size
          from found f
         where (f.epoch < p_to_epoch or pg_visible_in_snapshot(f.xid, p_to))
           and (p_partition_ids is null or f.partition_id = any (p_partition_ids))
           and (p_since is null or f.created_at >= p_since)
           and (p_until is null or f.created_at < p_until)
    ), dealt as (
        select w.*, floor((sum(w.message_count) over in_order - w.message_count)
                          / greatest(ceil(sum(w.message_count) over () / p_slices::numeric), p_messages_min))::int as slice
          from wanted w
        window in_order as (order by w.queue_id, w.late desc, w.epoch, w.xid, w.partition_id, w.first_offset)
    ), summed as (
        select d.*, row_number() over (own order by d.xid, d.partition_id, d.first_offset) as place,
               count(*) over own as segments, sum(d.message_count) over own as messages, sum(d.size) over own as bytes
          from dealt d
        window own as (partition by d.queue_id, d.late, d.epoch, d.slice)
    )
    select f.slice, f.queue_id, f.epoch, f.late, f.xid, f.partition_id, f.first_offset,
           lead(f.xid) over next, lead(f.partition_id) over next, lead(f.first_offset) over next,
           f.segments, f.messages::bigint, f.bytes::bigint
      from summed f
     where f.place = 1
    window next as (partition by f.queue_id, f.late, f.epoch order by f.xid, f.partition_id, f.first_offset)
     order by f.slice, f.queue_id, f.late desc, f.epoch;
end $$;
comment on function queen.slice_segments is 'Ranges of segments between two positions, balanced by messages.';
