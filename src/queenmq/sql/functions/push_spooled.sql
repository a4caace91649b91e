-- queen.push_spooled: store what lies between two positions of a server's spool file, once.
--
-- The position moves in the transaction that stores the messages, and only from p_from: whoever repeats
-- a call whose answer was lost, even one that is still at work, finds that it has moved and writes
-- nothing. The other arguments are those of queen.push_segments; without partitions the messages are
-- skipped. A duplicate is as there: nothing is written, first_offsets is null, the position stays.
--
-- Locks:   the file's row; then as queen.push_segments.
-- Returns: the position that was reached; p_to unless it was not at p_from, or there was a duplicate.
-- Raises:  what queen.push_segments raises.
create function queen.push_spooled(
    p_segment_id uuid, p_from bigint, p_to bigint,
    p_partition_ids bigint[], p_message_counts int[], p_payloads bytea[], p_transaction_ids text[], p_trace_ids text[],
    p_producers text[], p_encrypted boolean[], p_expected_offsets bigint[], p_flush_id uuid default null,
    p_known_flushes uuid[] default null, p_headers text[] default null,
    p_now timestamptz default null, p_incarnation text default null,
    out reached bigint,
    out first_offsets bigint[], out created_ats timestamptz[], out woken bigint[],
    out missed_segments int[], out missed_offsets bigint[], out missed_times timestamptz[], out missed_ids text[]
)
language plpgsql as $$
declare
    v_same  boolean := queen.check_incarnation(p_incarnation);
begin
    insert into queen.spool_positions (segment_id, position) values (p_segment_id, 0) on conflict do nothing;
    select position into reached from queen.spool_positions where segment_id = p_segment_id for update;
    if reached <> p_from then
        return;
    end if;
    if cardinality(p_partition_ids) > 0 then
        select * into first_offsets, created_ats, woken, missed_segments, missed_offsets, missed_times, missed_ids
          from queen.push_segments(p_partition_ids, p_message_counts, p_payloads, p_transaction_ids, p_trace_ids,
                                   p_producers, p_encrypted, p_expected_offsets, p_flush_id, p_known_flushes, p_headers, p_now);
        if first_offsets is null then
            return;
        end if;
    end if;
    update queen.spool_positions set position = p_to where segment_id = p_segment_id returning position into reached;
end $$;
comment on function queen.push_spooled is 'Store messages of a spool file and move its position, in one transaction.';
