-- queen.find_ids: which of these transaction ids a partition holds inside its dedup window, exactly.
--
-- Reads the whole window once, however many ids are asked for. Answers the first message of an id:
-- there are several where the queue had no window for a while.
create function queen.find_ids(
    p_partition_ids    bigint[],    -- one per id
    p_transaction_ids  text[],
    p_now              timestamptz default clock_timestamp()
) returns table (item int, "offset" bigint, created_at timestamptz)
language sql stable as $$
    with recent as materialized (
        select r.partition_id, k.id, r.first_offset + k.n - 1 as "offset", r.created_at
          from queen.recent_ids(array(select distinct unnest(p_partition_ids)), p_now) as r
         cross join lateral json_array_elements_text(r.transaction_ids::json) with ordinality as k (id, n)
         where k.id = any (p_transaction_ids)
    )
    select distinct on (i.n) i.n::int, r."offset", r.created_at
      from unnest(p_partition_ids, p_transaction_ids) with ordinality as i (partition_id, id, n)
      join recent r on r.partition_id = i.partition_id and r.id = i.id
     order by i.n, r."offset"
$$;
comment on function queen.find_ids is 'Offsets of transaction ids inside the dedup window.';
