-- queen.limit_messages: how far a reader gets from one position to another with a number of messages.
--
-- In whole transactions, in their order, and at least one: a transaction is never read in parts. What late
-- transactions wrote, those that were running at p_from, comes first and is never left for later.
--
-- Returns: the first transaction that is too much (null: none), and how many messages there are before it. Without a
--          limit, only whether there are any: messages is not 0 then.
create function queen.limit_messages(
    p_queue_ids    int[],
    p_from_epoch   smallint,
    p_from         pg_snapshot,
    p_to_epoch     smallint,
    p_to           pg_snapshot,
    p_limit        bigint,
    out epoch      smallint,
    out xid        xid8,
    out messages   bigint
)
language plpgsql stable
set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashagg = off
as $$
#variable_conflict use_column
declare
    v_before  bigint;        -- messages without those of the current transaction
    v_own     bigint;
begin
    select coalesce(sum(s.message_count), 0) into messages from queen.segments s
     where s.queue_id = any (p_queue_ids) and s.epoch = p_from_epoch
       and s.xid = any (array(select pg_snapshot_xip(p_from)))
       and (p_from_epoch < p_to_epoch or pg_visible_in_snapshot(s.xid, p_to));
    for epoch, xid, v_own in
        -- For one queue the index gives the order, and no more is read than is needed.
        execute format('select s.epoch, s.xid, sum(s.message_count) from queen.segments s
                         where s.queue_id = %s and (s.epoch, s.xid) >= ($2, pg_snapshot_xmax($3))
                           and (s.epoch, s.xid) < ($4, pg_snapshot_xmax($5))
                           and (s.epoch < $4 or pg_visible_in_snapshot(s.xid, $5))
                         group by s.epoch, s.xid order by s.epoch, s.xid',
                       case when cardinality(p_queue_ids) = 1 then '($1)[1]' else 'any ($1)' end)
          using p_queue_ids, p_from_epoch, p_from, p_to_epoch, p_to
    loop
        v_before := messages;
        messages := messages + v_own;
        if messages > p_limit and v_before > 0 then
            messages := v_before;
            return;
        end if;
        exit when p_limit is null;
    end loop;
    epoch := null;
    xid := null;
end $$;
comment on function queen.limit_messages is 'The transaction at which a reader that wants so many messages has to stop.';
