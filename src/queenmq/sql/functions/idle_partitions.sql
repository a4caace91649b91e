-- queen.idle_partitions: partitions that hold nothing and have had nothing to do since a moment.
--
-- Nothing stored, nothing to read for any group, no lease, no dead letter that may be redriven.
-- p_among: only these.
create function queen.idle_partitions(p_since timestamptz, p_limit int, p_now timestamptz, p_among bigint[] default null)
returns setof bigint
language sql stable as $$
    select l.partition_id
      from queen.partition_lookup l
      join queen.partitions p on p.id = l.partition_id
     where l.start_offset = l.next_offset
       and (p_among is null or l.partition_id = any (p_among))
       and coalesce(l.last_message_at, p.created_at) < p_since
       and not exists (select from queen.partition_consumers c
                        where c.partition_id = l.partition_id
                          and (c.committed <> l.next_offset or (c.lease_id is not null and c.ready_at > p_now)))
       and not exists (select from queen.dead_letters d where d.partition_id = l.partition_id)
     order by l.partition_id limit p_limit
$$;
comment on function queen.idle_partitions is 'Ids of empty, finished, unused partitions.';
