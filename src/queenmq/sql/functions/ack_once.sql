-- queen.ack_once: queen.ack_batch for a caller that will ask again if it loses the answer.
--
-- Completing a message twice changes nothing, and queen.ack_batch can tell that it was done before.
-- A failure is counted each time, and when it ends the lease nothing shows whose failure it was. So
-- the answer is kept under the caller's id for the call, and a repetition is only answered.
--
-- The call that lost its connection must have ended before it is repeated.
--
-- Locks:   as queen.ack_batch.
-- Raises:  as queen.ack_batch.
create function queen.ack_once(
    p_call_id         uuid,
    p_partition_ids   bigint[],
    p_group_ids       int[],
    p_lease_ids       uuid[],
    p_range_acks      int[],
    p_range_froms     bigint[],
    p_range_tos       bigint[],
    p_message_acks    int[],
    p_message_offsets bigint[],
    p_statuses        text[],
    p_errors          text[],
    p_now             timestamptz default clock_timestamp()
) returns table (
    ack int, held boolean, accepted int8multirange, dead int8multirange, released boolean, more boolean, already boolean,
    queue_name text
)
language plpgsql as $$
#variable_conflict use_column
begin
    if not exists (select from queen.calls c where c.id = p_call_id) then
        insert into queen.calls (id, made_at, answer)
        select p_call_id, p_now, jsonb_agg(a)
          from queen.ack_batch(p_partition_ids, p_group_ids, p_lease_ids, p_range_acks, p_range_froms, p_range_tos,
                               p_message_acks, p_message_offsets, p_statuses, p_errors, p_now) as a;
    end if;
    return query
    select a.* from queen.calls c
     cross join lateral jsonb_to_recordset(c.answer) as a (
         ack int, held boolean, accepted int8multirange, dead int8multirange, released boolean, more boolean,
         already boolean, queue_name text)
     where c.id = p_call_id order by a.ack;
end $$;
comment on function queen.ack_once is 'Acknowledge, or answer again what the same call was answered before.';
