-- queen.retry_message: redrive the dead letters of one message.
--
-- For the group that is named, or for every group that gave it up. The message itself may have left
-- the log: see queen.redrive_dead_letters. Where its transaction id was used twice the newest counts.
--
-- Locks:   those of queen.redrive_dead_letters.
-- Raises:  QN406 no such message, QN412 nobody has given it up, QN429 no room to push it anew.
-- Returns: for how many groups it is delivered again.
create function queen.retry_message(
    p_partition_id    bigint,
    p_transaction_id  text,
    p_group           text        default null,
    p_now             timestamptz default clock_timestamp()
) returns int
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_ids  bigint[];
begin
    v_ids := array(
        select f.id
          from (select d.id, d.group_name, d."offset" = max(d."offset") over () as newest
                  from queen.dead_letters d
                 where d.partition_id = p_partition_id
                   and (d.transaction_id = p_transaction_id
                        or queen.message_id(d.created_at, d.partition_id, d."offset")::text = lower(p_transaction_id))) as f
         where f.newest and (p_group is null or f.group_name = p_group));
    if v_ids <> '{}' then
        return queen.redrive_dead_letters(v_ids, p_now => p_now);
    elsif exists (select from queen.find_message(p_partition_id, p_transaction_id, p_now => p_now)) then
        raise exception 'message "%" is no dead letter of %', p_transaction_id,
            coalesce(format('group "%s"', p_group), 'any group') using errcode = 'QN412';
    end if;
    raise exception 'there is no message "%" in this partition', p_transaction_id using errcode = 'QN406';
end $$;
comment on function queen.retry_message is 'Deliver a dead message again, to those who gave it up.';
