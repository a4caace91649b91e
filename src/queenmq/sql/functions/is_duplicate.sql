-- queen.is_duplicate: whether a partition is known to have a transaction id, for one message.
--
-- A quick look, so that queen.push stays cheap: the 100 newest rows of the inbox (committed, or of this transaction), then
-- the 8 newest segments, as far as they are inside the queue's dedup window. An id that is older than these is not found
-- here; queen.sequence_inbox reads the whole window and drops the message then.
create function queen.is_duplicate(
    p_queue text, p_partition text, p_transaction_id text, p_window_seconds int, p_now timestamptz
) returns boolean
language plpgsql stable
as $$
begin
    if p_window_seconds = 0 then
        return false;
    elsif exists (select from (select i.* from queen.inbox i order by i.id desc limit 100) as i
                   where i.transaction_id = p_transaction_id and i.partition_name = p_partition and i.queue_name = p_queue) then
        return true;
    end if;
    return exists (
        select from queen.queues q
          join queen.partitions p on p.queue_id = q.id and p.name = p_partition
         cross join lateral (select s.created_at, s.transaction_ids from queen.segments s
                              where s.partition_id = p.id order by s.first_offset desc limit 8) as s
         where q.name = p_queue and s.created_at >= p_now - make_interval(secs => p_window_seconds)
           -- Most segments do not have the text at all; only the others are parsed.
           and position(to_json(p_transaction_id)::text in s.transaction_ids) > 0
           and exists (select from json_array_elements_text(s.transaction_ids::json) as t (id) where t.id = p_transaction_id));
end $$;
comment on function queen.is_duplicate is 'Whether a transaction id is in the inbox or among the newest messages.';
