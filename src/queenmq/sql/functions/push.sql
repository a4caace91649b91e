-- queen.push: push a message inside the application's own transaction.
--
-- The message is stored when that transaction commits and not at all when it rolls back. It waits in
-- the inbox, without a lock on anything, and queen.sequence_inbox gives it its place: so a long
-- transaction holds nobody up. p_headers: queen.check_headers.
--
-- If the partition has seen the transaction id within the dedup window, the message is a duplicate and is not stored
-- again. Duplicates of recent messages are found at once (queen.is_duplicate) and answered with null. Others, also those
-- of transactions that have not committed yet, are dropped by queen.sequence_inbox. Above READ COMMITTED nothing is looked
-- for: SERIALIZABLE transactions that read the inbox and write to it would make each other fail.
--
-- Waking the sequencer: a NOTIFY takes a global lock at commit, too much for every push. The
-- sequencer holds the advisory lock (20814, 1) exclusively while it sleeps, and looks at the inbox
-- once more after taking it. If the shared lock is to be had here, it is awake, and cannot fall
-- asleep before this transaction has ended; if not, it sleeps and is notified on queen_inbox.
--
-- Raises:  QN421 bad name, QN422 no payload, one that queen.check_payload refuses or a bad transaction id,
--          QN427 the queue is encrypted (only a server has the key), QN428 bad headers, QN429 it is full.
--          Nothing is locked, so pushes that commit together may together pass the limit; then they wait in
--          the inbox for room.
-- Returns: the number of the message in the inbox; null for a duplicate.
create function queen.push(
    p_queue           text,
    p_payload         jsonb,
    p_partition       text        default 'Default',
    p_transaction_id  text        default null,
    p_trace_id        uuid        default null,
    p_headers         jsonb       default null,
    p_now             timestamptz default clock_timestamp()
) returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_payload  text := p_payload::text;
    v_queue    record;
    v_depth    bigint;
    v_id       bigint;
begin
    p_queue := queen.check_name(p_queue, 'queue');    -- an assignment is much cheaper than a perform
    p_partition := queen.check_name(p_partition, 'partition');
    if p_payload is null then
        raise exception 'a message has a payload; JSON null is written ''null''' using errcode = 'QN422';
    elsif length(p_transaction_id) not between 1 and 255 then
        raise exception 'the transaction id has % characters; it must have 1 to 255', length(p_transaction_id)
            using errcode = 'QN422';
    elsif length(v_payload) > 330 then
        perform queen.check_payload(p_payload, v_payload);
    end if;

    select q.encryption_enabled, q.max_queue_size, q.dedup_window_seconds, q.id, d.depth_bound into v_queue
      from queen.queues q left join queen.depth_bounds d on d.queue_id = q.id where q.name = p_queue;
    if v_queue.encryption_enabled then
        raise exception 'queue "%" is encrypted: push to it through a server or an SDK', p_queue using errcode = 'QN427';
    end if;
    if p_transaction_id is not null and current_setting('transaction_isolation') = 'read committed'
       and queen.is_duplicate(p_queue, p_partition, p_transaction_id, coalesce(v_queue.dedup_window_seconds, 3600), p_now) then
        return null;
    end if;
    if v_queue.max_queue_size > 0 then
        v_depth := (select count(*) from queen.inbox where queue_name = p_queue);
        if v_queue.depth_bound is null or v_queue.depth_bound + v_depth >= v_queue.max_queue_size then
            v_depth := v_depth + queen.queue_depth(v_queue.id);
            if v_depth >= v_queue.max_queue_size then
                raise exception 'queue "%" is full: % messages are waiting and % is the limit',
                    p_queue, v_depth, v_queue.max_queue_size
                    using errcode = 'QN429',
                          detail = jsonb_build_object('queue', p_queue, 'depth', v_depth,
                                                      'limit', v_queue.max_queue_size)::text;
            end if;
        end if;
    end if;

    insert into queen.inbox (queue_name, partition_name, transaction_id, trace_id, headers, payload, created_at)
    values (p_queue, p_partition, p_transaction_id, p_trace_id, queen.check_headers(p_headers), v_payload, p_now)
    returning id into v_id;
    if not pg_try_advisory_xact_lock_shared(20814, 1) then
        perform pg_notify('queen_inbox', '');
    end if;
    return v_id;
end $$;
comment on function queen.push is 'Push inside your own transaction: stored at its commit, gone with its rollback.';
