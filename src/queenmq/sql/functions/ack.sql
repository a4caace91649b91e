-- queen.ack: say what became of one message, from SQL.
--
-- completed, failed, retry or dlq: see queen.ack_batch.
--
-- Raises:  QN406 no such message, QN410 the lease is gone, QN411 the message is not in it, QN424 unknown
--          status.
-- Returns: whether the lease has ended because every message of it was answered.
create function queen.ack(
    p_message_id  uuid,
    p_lease_id    uuid,
    p_status      text        default 'completed',
    p_error       text        default null,
    p_now         timestamptz default clock_timestamp()
) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_at        record;
    v_group     int;
    v_held      boolean := false;
    v_accepted  int8multirange;
    v_released  boolean;
begin
    select m.partition_id, m."offset" into v_at from queen.message_position(p_message_id) as m;
    if not exists (select from queen.fetch_segments(array[v_at.partition_id], array[v_at."offset"], array[v_at."offset" + 1]) as s
                    where queen.message_id(s.created_at, v_at.partition_id, v_at."offset") = p_message_id) then
        raise exception 'there is no message %', p_message_id using errcode = 'QN406';
    end if;
    select c.group_id into v_group from queen.partition_consumers c
     where c.lease_id = p_lease_id and c.partition_id = v_at.partition_id;
    if p_status = 'completed' then
        select a.held, a.accepted, a.released into v_held, v_accepted, v_released
          from queen.ack_batch(array[v_at.partition_id], array[v_group], array[p_lease_id],
                               array[1], array[v_at."offset"], array[v_at."offset" + 1], p_now => p_now) as a;
    else
        select a.held, a.accepted, a.released into v_held, v_accepted, v_released
          from queen.ack_batch(array[v_at.partition_id], array[v_group], array[p_lease_id], '{}', '{}', '{}',
                               array[1], array[v_at."offset"], array[p_status], array[p_error], p_now) as a;
    end if;
    if not v_held and not exists (select from queen.partition_consumers c
                                   where c.lease_id = p_lease_id and c.ready_at > p_now) then
        raise exception 'lease % is not held any more', p_lease_id using errcode = 'QN410';
    elsif isempty(v_accepted) then
        raise exception 'message % is not in lease %', p_message_id, p_lease_id using errcode = 'QN411';
    end if;
    return v_released;
end $$;
comment on function queen.ack is 'Acknowledge one message; true when its lease has ended.';
