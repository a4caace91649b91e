-- queen.require_encryption: nothing readable enters an encrypted queue.
--
-- A null in p_encrypted lets one segment pass: it was accepted before the queue became encrypted
-- (queen.sequence_inbox, queen.redrive_dead_letters). No array at all means that nothing is encrypted.
--
-- Raises:  QN427 when a segment for a queue with encryption on is not encrypted.
create function queen.require_encryption(p_partition_ids bigint[], p_encrypted boolean[]) returns void
language plpgsql as $$
declare
    v_queue  text;
begin
    select q.name into v_queue
      from unnest(p_partition_ids, p_encrypted) as i (id, encrypted)
      join queen.partition_lookup l on l.partition_id = i.id
      join queen.queues q on q.id = l.queue_id
     where q.encryption_enabled and (p_encrypted is null or not i.encrypted) limit 1;
    if found then
        raise exception 'queue "%" is encrypted and this message is not', v_queue using errcode = 'QN427';
    end if;
end $$;
comment on function queen.require_encryption is 'Refuse readable segments for encrypted queues.';
