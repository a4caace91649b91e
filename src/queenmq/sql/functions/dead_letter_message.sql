-- queen.dead_letter_message: have a group give up a message that it has not finished.
--
-- For operators who know that a message will never work. It becomes a dead letter as if its consumer
-- had said so, also where the queue keeps none otherwise. Under a live lease too: what its holder
-- says about the message later changes nothing. A group that has not reached the partition yet does so now.
--
-- Locks:   the queue row, if the group has not reached the partition; the lookup row, shared; the
--          consumer row.
-- Raises:  QN406 no such message, QN407 no such group, QN412 the group does not read it, or has finished it.
create function queen.dead_letter_message(
    p_partition_id    bigint,
    p_transaction_id  text,
    p_group           text        default '__QUEUE_MODE__',
    p_error           text        default null,
    p_now             timestamptz default clock_timestamp()
) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_at   record;
    v_row  queen.partition_consumers;
begin
    select l."offset", l.group_id, g.queue_wide into v_at
      from queen.locate_messages(array[p_partition_id], array[p_group], array[p_transaction_id], p_now) as l
      left join queen.queue_groups g on g.id = l.group_id;
    if v_at."offset" is null then
        raise exception 'there is no message "%" in this partition', p_transaction_id using errcode = 'QN406';
    elsif v_at.group_id is null then
        raise exception 'there is no group "%" on this queue', p_group using errcode = 'QN407';
    elsif v_at.queue_wide and not exists (select from queen.partition_consumers c
                                           where c.partition_id = p_partition_id and c.group_id = v_at.group_id) then
        perform queen.extend_group(v_at.group_id, 1, p_partition_id, p_now);
    end if;
    perform 1 from queen.partition_lookup where partition_id = p_partition_id for share;
    select * into v_row from queen.partition_consumers
     where partition_id = p_partition_id and group_id = v_at.group_id for update;
    if not found then
        raise exception 'group "%" does not read this partition', p_group using errcode = 'QN412';
    elsif v_at."offset" < v_row.committed or v_row.acked @> v_at."offset" then
        raise exception 'group "%" is done with message "%"', p_group, p_transaction_id using errcode = 'QN412';
    end if;
    perform queen.bury(array[p_partition_id], array[v_at.group_id], array[v_at."offset"], array[p_error],
                       array[coalesce((v_row.retries ->> v_at."offset"::text)::int, 0)], p_now);
    perform queen.pass_over(p_partition_id, array[v_at.group_id], v_at."offset", true, p_now);
end $$;
comment on function queen.dead_letter_message is 'Make a message a dead letter on behalf of a group.';
