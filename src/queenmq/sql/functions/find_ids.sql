-- queen.find_ids: whether messages have these transaction ids, and are inside the dedup window.
--
-- A pusher remembers hashes of ids, and where they were; whether a message has just this id, only the log can tell.
-- Each segment is read once, however many of its messages are asked for.
--
-- Raises:  QN430 another incarnation.
create function queen.find_ids(
    p_partition_ids    bigint[],    -- one per message
    p_offsets          bigint[],
    p_transaction_ids  text[],
    p_now              timestamptz default clock_timestamp(),
    p_incarnation      text        default null    -- to which partitions and offsets belong
) returns table (item int, created_at timestamptz)    -- of those that have it
language sql stable
set enable_nestloop = off set enable_mergejoin = off set jit = off    -- a loop would compare each with each
as $$
    with asked as materialized (
        select i.n, i.id, i."offset", s.partition_id, s.first_offset, s.created_at, s.transaction_ids
          from unnest(p_partition_ids, p_offsets, p_transaction_ids) with ordinality as i (partition_id, "offset", id, n)
         cross join lateral (select s.* from queen.segments s
                              where s.partition_id = i.partition_id and s.first_offset <= i."offset"
                              order by s.first_offset desc limit 1) as s
          join queen.queues q on q.id = s.queue_id
         where i."offset" < s.first_offset + s.message_count and q.dedup_window_seconds > 0
           and s.created_at >= p_now - make_interval(secs => q.dedup_window_seconds)
    ), held as materialized (
        select s.partition_id, s.first_offset + k.n - 1 as "offset", k.id
          from (select distinct on (a.partition_id, a.first_offset) a.* from asked a) as s
         cross join lateral json_array_elements_text(s.transaction_ids::json) with ordinality as k (id, n)
    )
    select a.n::int, a.created_at
      from asked a join held h on h.partition_id = a.partition_id and h."offset" = a."offset" and h.id = a.id
     where queen.check_incarnation(p_incarnation)
$$;
comment on function queen.find_ids is 'Which messages have given transaction ids, inside the dedup window.';
