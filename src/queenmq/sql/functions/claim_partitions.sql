-- queen.claim_partitions: lock the partitions of a group that have been ready for longest.
--
-- Whoever has locked one is being served: it is passed over, never waited for. With p_partition_id
-- only that partition will do.
--
-- Locks:   partition_consumers rows, skipping locked ones.
-- Returns: the partitions, longest ready first, null when there are none; where their rows are, for as
--          long as they are locked and not changed; whether a lease lapsed on one of them, or its group
--          starts at a moment in the future; the ready_at of the partition that has been ready for longest, also
--          if another transaction has locked it: that transaction may leave the partition as it is, or roll back,
--          and the next pop must not begin behind it (ready_since of queen.pop_batch).
create function queen.claim_partitions(
    p_group_id      int,
    p_partition_id  bigint,
    p_since         timestamptz,
    p_limit         int,
    p_now           timestamptz,
    out partition_ids  bigint[],
    out places         tid[],
    out lapsed         boolean,
    out early          boolean,
    out first_ready_at timestamptz
)
language plpgsql as $$
begin
    if p_partition_id is not null then
        select array_agg(c.partition_id), array_agg(c.place), bool_or(c.lease_id is not null), bool_or(c.starts_at is not null)
          into partition_ids, places, lapsed, early
          from (select c.partition_id, c.ctid as place, c.lease_id, c.starts_at from queen.partition_consumers c
                 where (c.partition_id, c.group_id) >= (p_partition_id, p_group_id)
                   and (c.partition_id, c.group_id) <= (p_partition_id, p_group_id) and c.ready_at <= p_now
                 order by c.partition_id desc, c.group_id desc limit 1    -- the newest version first
                   for update skip locked) as c;
    else
        select array_agg(c.partition_id), array_agg(c.place), bool_or(c.lease_id is not null), bool_or(c.starts_at is not null),
               (select h.ready_at from queen.partition_consumers h
                 where h.group_id = p_group_id and h.ready_at between p_since and p_now order by h.ready_at limit 1)
          into partition_ids, places, lapsed, early, first_ready_at
          from (select c.partition_id, c.ctid as place, c.lease_id, c.starts_at, c.ready_at from queen.partition_consumers c
                 where c.group_id = p_group_id and c.ready_at between p_since and p_now
                 order by c.ready_at limit p_limit
                   for update skip locked) as c;
    end if;
end $$;
comment on function queen.claim_partitions is 'Lock ready partitions of a group, longest ready first.';
