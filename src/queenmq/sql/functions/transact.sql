-- queen.transact: acknowledge and push together; all of it, or nothing.
--
-- The arguments of queen.ack_batch and queen.push_segments. An ack that is not accepted, or a
-- lease in p_required_leases that is gone, undoes everything. A duplicate push does not: as in
-- queen.push_segments nothing is written, first_offsets is null, and the caller drops the
-- duplicate and calls again. Where nothing is pushed, p_flush_id is noted in queen.calls, so that a
-- caller who loses the answer can ask.
--
-- Locks:   all lookup rows of the acks, the pushes and the required leases first, in partition_id order; those of
--          queen.push_segments; all consumer rows of the acks and the required leases together, in the order of
--          partition_id and group_id.
-- Raises:  QN410 lease gone, QN411 not in the lease, and what its parts raise.
create function queen.transact(
    p_ack_partition_ids bigint[], p_ack_group_ids int[], p_ack_lease_ids uuid[],
    p_range_acks int[], p_range_froms bigint[], p_range_tos bigint[],
    p_message_acks int[], p_message_offsets bigint[], p_statuses text[], p_errors text[],
    p_required_leases uuid[],
    p_partition_ids bigint[], p_message_counts int[], p_payloads bytea[], p_transaction_ids text[], p_trace_ids text[],
    p_producers text[], p_encrypted boolean[], p_expected_offsets bigint[], p_flush_id uuid default null,
    p_known_flushes uuid[] default null, p_headers text[] default null,
    p_now timestamptz default null, p_incarnation text default null,
    out first_offsets bigint[], out created_ats timestamptz[], out woken bigint[],
    out missed_segments int[], out missed_offsets bigint[], out missed_times timestamptz[], out missed_ids text[]
)
language plpgsql
set enable_seqscan = off set jit = off
as $$
declare
    v_same   boolean := queen.check_incarnation(p_incarnation);
    v_ack    record;
    v_asked  int8multirange;
    v_lease  uuid;
begin
    perform 1 from queen.partition_lookup l
      where l.partition_id = any (
            p_ack_partition_ids || p_partition_ids
            || array(select c.partition_id from queen.partition_consumers c where c.lease_id = any (p_required_leases)))
      order by l.partition_id for no key update;

    if cardinality(p_partition_ids) > 0 then
        select * into first_offsets, created_ats, woken, missed_segments, missed_offsets, missed_times, missed_ids
          from queen.push_segments(p_partition_ids, p_message_counts, p_payloads, p_transaction_ids, p_trace_ids,
                                   p_producers, p_encrypted, p_expected_offsets, p_flush_id, p_known_flushes, p_headers, p_now);
        if first_offsets is null then
            return;
        end if;
    elsif p_flush_id is not null then
        insert into queen.calls (id, made_at) values (p_flush_id, coalesce(p_now, clock_timestamp()));
    end if;

    -- What is acknowledged and what is required: in one order for both.
    perform from (select p.id, p.g from unnest(p_ack_partition_ids, p_ack_group_ids) as p (id, g)
                  union
                  select c.partition_id, c.group_id from queen.partition_consumers c where c.lease_id = any (p_required_leases)
                  order by 1, 2) as k
      cross join lateral (select from queen.partition_consumers c
                           where (c.partition_id, c.group_id) >= (k.id, k.g) and (c.partition_id, c.group_id) <= (k.id, k.g)
                           order by c.partition_id desc, c.group_id desc limit 1 for update) as c;
    select i into v_lease from unnest(p_required_leases) as i
     where not exists (select from queen.partition_consumers c
                        where c.lease_id = i and c.ready_at > coalesce(p_now, clock_timestamp())) limit 1;
    if found then
        raise exception 'lease % is not held any more', v_lease using errcode = 'QN410';
    end if;

    for v_ack in
        select a.*, p_ack_lease_ids[a.ack] as lease_id
          from queen.ack_batch(p_ack_partition_ids, p_ack_group_ids, p_ack_lease_ids, p_range_acks, p_range_froms,
                               p_range_tos, p_message_acks, p_message_offsets, p_statuses, p_errors,
                               coalesce(p_now, clock_timestamp())) as a
         order by a.ack    -- the first that is refused is told
    loop
        if not v_ack.held then
            raise exception 'lease % is not held any more', v_ack.lease_id using errcode = 'QN410';
        end if;
        select range_agg(r.r) into v_asked
          from (select int8range(f, t) from unnest(p_range_acks, p_range_froms, p_range_tos) as r (n, f, t) where r.n = v_ack.ack
                union all
                select int8range(o, o + 1) from unnest(p_message_acks, p_message_offsets) as m (n, o) where m.n = v_ack.ack) as r (r);
        if not v_asked <@ v_ack.accepted then
            raise exception 'offsets % are not in lease %', v_asked - v_ack.accepted, v_ack.lease_id using errcode = 'QN411';
        end if;
    end loop;
end $$;
comment on function queen.transact is 'Acks and pushes in one transaction, all or nothing.';
