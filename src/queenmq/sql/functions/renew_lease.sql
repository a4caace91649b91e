-- queen.renew_lease: keep what you hold for a while longer.
--
-- One lease id may cover several partitions (a pop can claim many): they were leased together and
-- are renewed together. An expired lease is not revived: its messages may already be on their way
-- to someone else. p_seconds null: the queue's lease time.
--
-- Locks:   lookup rows, shared, then the lease's rows, both in partition_id order. While this call waits for a row, an ack
--          may end the lease and set ready_at to null; such a row may only be locked under its lookup row.
-- Returns: one row per lease; expires_at is null where the lease is gone.
create function queen.renew_lease(
    p_lease_ids  uuid[],
    p_seconds    double precision[] default null,
    p_now        timestamptz default clock_timestamp()
) returns table (item int, expires_at timestamptz)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set jit = off
as $$
#variable_conflict use_column
declare
    v_ids  bigint[];
begin
    if exists (select from unnest(p_seconds) as s where s <= 0 or s > 604800) then
        raise exception 'a lease lasts more than 0 and at most 604800 seconds' using errcode = 'QN400';
    end if;
    v_ids := array(select c.partition_id from queen.partition_consumers c where c.lease_id = any (p_lease_ids));
    perform 1 from queen.partition_lookup l where l.partition_id = any (v_ids) order by l.partition_id for share;
    perform 1 from queen.partition_consumers c where c.lease_id = any (p_lease_ids)
      order by c.partition_id, c.group_id for update;
    return query
    with renewed as (
        update queen.partition_consumers c
           set ready_at = p_now + make_interval(secs => coalesce(i.seconds, q.lease_seconds))
          from (select lease_id, max(seconds) as seconds
                  from unnest(p_lease_ids, p_seconds) as i (lease_id, seconds) group by lease_id) as i,
               queen.queue_groups g, queen.queues q
         where c.lease_id = i.lease_id and c.ready_at > p_now and g.id = c.group_id and q.id = g.queue_id
        returning c.lease_id, c.ready_at
    )
    select i.n::int, (select min(r.ready_at) from renewed r where r.lease_id = i.id)
      from unnest(p_lease_ids) with ordinality as i (id, n);
end $$;
comment on function queen.renew_lease is 'Extend live leases; answers when they now expire, null where one is gone.';
