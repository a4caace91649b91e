-- queen.bury: copy messages a group gives up on into the dead letters.
--
-- The caller moves the group's cursor past them in the same transaction.
create function queen.bury(
    p_partition_ids  bigint[],
    p_group_ids      int[],
    p_offsets        bigint[],
    p_errors         text[],
    p_retry_counts   int[],
    p_now            timestamptz
) returns void
language sql as $$
    insert into queen.dead_letters (queue_id, partition_id, group_name, "offset", created_at, failed_at, retry_count,
                                    error, transaction_id, trace_id, producer, encrypted, headers, payload)
    select s.queue_id, s.partition_id, g.name, s.first_offset + e.place - 1, s.created_at, p_now, k.retry_counts[at.n],
           k.errors[at.n], e.transaction_id, e.trace_id::uuid, s.producer, s.encrypted, e.headers::json,
           convert_to(e.payload::text, 'UTF8')
      from (select i.partition_id, i.group_id, s.first_offset, array_agg(i."offset" - s.first_offset + 1) as places,
                   array_agg(i.error) as errors, array_agg(i.retry_count) as retry_counts
              from unnest(p_partition_ids, p_group_ids, p_offsets, p_errors, p_retry_counts)
                   as i (partition_id, group_id, "offset", error, retry_count)
             cross join lateral (
                  select s.first_offset from queen.segments s
                   where s.partition_id = i.partition_id and s.first_offset <= i."offset"
                   order by s.first_offset desc limit 1) as s
             group by 1, 2, 3) as k    -- each segment is taken apart once
      join queen.segments s on s.partition_id = k.partition_id and s.first_offset = k.first_offset
      join queen.queue_groups g on g.id = k.group_id
     cross join lateral rows from (
          json_array_elements(convert_from(s.payloads, 'UTF8')::json),
          json_array_elements_text(s.transaction_ids::json),
          json_array_elements_text(s.trace_ids::json),
          json_array_elements_text(s.headers::json)
          ) with ordinality as e (payload, transaction_id, trace_id, headers, place)
     cross join lateral (select array_position(k.places, e.place) as n) as at
     where at.n is not null
     order by s.partition_id, s.first_offset, e.place
$$;
comment on function queen.bury is 'Copy messages into dead_letters on behalf of groups.';
