-- queen.missed_ids: transaction ids of a partition that a pusher does not know yet.
--
-- The log is its own index: the ids are in its segments. From p_expected on, and never further
-- back than the queue's dedup window. duplicate says whether one of them is also in p_new.
create function queen.missed_ids(
    p_partition_id  bigint,
    p_expected      bigint,    -- null: nothing is known
    p_new           text,      -- JSON array of the ids about to be pushed
    p_known         uuid[],    -- flushes the pusher made itself: it knows their ids
    p_now           timestamptz
) returns table (first_offset bigint, created_at timestamptz, transaction_ids text, duplicate boolean)
language sql stable
as $$
    select s.first_offset, s.created_at, s.transaction_ids,
           -- intersect: a join would be planned for the first match, as a loop in a loop, and most often there is
           -- none. It takes nulls for equal, and messages without an id are not.
           exists (select old.id from json_array_elements_text(s.transaction_ids::json) as old (id) where old.id is not null
                   intersect select json_array_elements_text(p_new::json))
      from queen.segments s
     where s.partition_id = p_partition_id
       and s.transaction_ids is not null
       and (s.flush_id = any (p_known)) is not true
       and s.first_offset >= greatest(p_expected, (
               select queen.offset_at(p_partition_id, case when q.dedup_window_seconds > 0
                                                       then p_now - make_interval(secs => q.dedup_window_seconds)
                                                       else 'infinity' end)
                 from queen.partition_lookup l join queen.queues q on q.id = l.queue_id
                where l.partition_id = p_partition_id))
     order by s.first_offset
$$;
comment on function queen.missed_ids is 'Recent transaction ids of a partition from an offset on.';
