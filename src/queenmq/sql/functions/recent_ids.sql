-- queen.recent_ids: the transaction ids of partitions inside their queue's dedup window, page by page.
--
-- What a pusher reads before it decides about duplicates by itself: segment by segment, partition by partition, in the
-- order asked for, from p_froms[i] on (null: where the window begins). Behind the last segment of a partition a row
-- has next_offset: up to there the ids are complete, and those that are written meanwhile are told by
-- queen.push_segments. There may be millions: after p_bytes of ids it ends, and the caller asks again for the rest.
--
-- Raises:  QN430 another incarnation.
create function queen.recent_ids(
    p_partition_ids  bigint[],
    p_froms          bigint[]    default null,
    p_bytes          bigint      default 4194304,
    p_now            timestamptz default clock_timestamp(),
    p_incarnation    text        default null    -- to which the partitions belong
) returns table (partition_id bigint, next_offset bigint, first_offset bigint, created_at timestamptz, transaction_ids text)
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
#variable_conflict use_column
declare
    v_same   boolean := queen.check_incarnation(p_incarnation);
    v_log    record;
    v_bytes  bigint := 0;
begin
    for i in 1 .. cardinality(p_partition_ids) loop
        select l.next_offset, q.dedup_window_seconds into v_log
          from queen.partition_lookup l join queen.queues q on q.id = l.queue_id
         where l.partition_id = p_partition_ids[i];
        continue when not found;
        partition_id := p_partition_ids[i];
        if v_log.dedup_window_seconds > 0 then
            for first_offset, created_at, transaction_ids in
                select s.first_offset, s.created_at, s.transaction_ids from queen.segments s
                 where s.partition_id = p_partition_ids[i] and s.first_offset < v_log.next_offset and s.transaction_ids is not null
                   and s.first_offset >= coalesce(p_froms[i], queen.offset_at(
                           p_partition_ids[i], p_now - make_interval(secs => v_log.dedup_window_seconds)))
                 order by s.first_offset
            loop
                next_offset := null;
                return next;
                v_bytes := v_bytes + octet_length(transaction_ids);
                if v_bytes >= p_bytes then
                    return;
                end if;
            end loop;
        end if;
        next_offset := v_log.next_offset;
        first_offset := null;
        created_at := null;
        transaction_ids := null;
        return next;
    end loop;
end $$;
comment on function queen.recent_ids is 'Transaction ids of the dedup window, with the offset up to which they are complete.';
