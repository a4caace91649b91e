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
                                    error, transaction_id, trace_id, producer, encrypted, payload)
    select s.queue_id, i.partition_id, g.name, i."offset", s.created_at, p_now, i.retry_count, i.error,
           s.transaction_ids::json ->> k.i, (s.trace_ids::json ->> k.i)::uuid, s.producer, s.encrypted,
           convert_to((convert_from(s.payloads, 'UTF8')::json -> k.i)::text, 'UTF8')
      from unnest(p_partition_ids, p_group_ids, p_offsets, p_errors, p_retry_counts)
           as i (partition_id, group_id, "offset", error, retry_count)
      join queen.queue_groups g on g.id = i.group_id
     cross join lateral (
          select * from queen.segments s
           where s.partition_id = i.partition_id and s.first_offset <= i."offset"
           order by s.first_offset desc limit 1) as s
     cross join lateral (select (i."offset" - s.first_offset)::int as i) as k
     where i."offset" < s.first_offset + s.message_count
$$;
comment on function queen.bury is 'Copy messages into dead_letters on behalf of groups.';
