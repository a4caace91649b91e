-- queen.sequence_inbox: give the messages pushed inside transactions their places in their partitions.
--
-- In the order of their inbox ids, as far as they are committed: what commits late is placed late.
-- A queue that is gone is created again. Messages of a full queue stay in the inbox until there is
-- room, in order, and nobody else waits behind them. A message accepted before its queue became
-- encrypted is stored as it was accepted. Duplicates are dropped. A segment holds one producer's
-- messages, up to 1,000 or about 1 MiB.
--
-- Locks:   the advisory lock (20814, 2): one sequencer at a time, another returns at once. Then queue
--          rows, lookup rows in partition_id order, queue_depths rows of limited queues.
-- Returns: one row: how many rows left the inbox, how many of them were stored (the others were
--          duplicates), the partitions where some group had been waiting, the queues written to, and
--          whether there is more to do at once.
create function queen.sequence_inbox(
    p_limit  int         default 1000,
    p_now    timestamptz default null    -- null: the clock, read under the locks
) returns table (moved int, stored int, woken bigint[], queues text[], more boolean)
language plpgsql
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set jit = off
as $$
#variable_conflict use_column
declare
    v_full        text[];
    v_ids         bigint[];    -- three arrays, one element per inbox row that may go
    v_queues      text[];
    v_partitions  text[];
    v_places      bigint[];
    v_segments    record;
begin
    moved := 0; stored := 0; woken := '{}'; queues := '{}'; more := false;
    if pg_try_advisory_xact_lock(20814, 2) then
        v_full := array(select q.name from queen.queues q
                         where q.max_queue_size > 0 and q.name in (select i.queue_name from queen.inbox i)
                           and queen.queue_depth(q.id) >= q.max_queue_size);
        select array_agg(i.id), array_agg(i.queue_name), array_agg(i.partition_name)
          into v_ids, v_queues, v_partitions
          from (select i.id, i.queue_name, i.partition_name from queen.inbox i
                 where i.queue_name <> all (v_full) order by i.id limit p_limit) as i;
    end if;
    if v_ids is null then
        return next;
        return;
    end if;
    more := cardinality(v_ids) = p_limit;

    select array_agg(e.partition_id order by e.item) into v_places
      from queen.ensure_partitions(v_queues, v_partitions) as e;
    perform 1 from queen.partition_lookup l where l.partition_id = any (v_places)
      order by l.partition_id for no key update;
    perform queen.forget_depth(array(select q.id from queen.queues q
                                      where q.name = any (v_queues) and q.max_queue_size > 0));
    p_now := coalesce(p_now, clock_timestamp());

    with room as (
        select q.name, q.max_queue_size - queen.queue_depth(q.id) as messages
          from queen.queues q where q.name = any (v_queues) and q.max_queue_size > 0
    ), numbered as (
        select k.id, k.place, k.queue, row_number() over (partition by k.queue order by k.id) as nth
          from unnest(v_ids, v_places, v_queues) as k (id, place, queue)
    ), moved as (    -- not what was deleted with its queue or partition meanwhile
        delete from queen.inbox i
         using numbered k
          left join room r on r.name = k.queue
         cross join lateral (select l.* from queen.partition_lookup l where l.partition_id = k.place offset 0) as l
          join queen.queues q on q.id = l.queue_id
         where i.id = k.id and (r.name is null or k.nth <= r.messages)
        returning i.*, k.place, l.next_offset, q.dedup_window_seconds > 0 as deduplicated
    ), seen as (
        select m.place, t.id
          from (select m.place, json_agg(m.transaction_id)::text as ids from moved m
                 where m.transaction_id is not null group by m.place) as m
         cross join lateral queen.missed_ids(m.place, null, m.ids, null, p_now) as s
         cross join lateral json_array_elements_text(s.transaction_ids::json) as t (id)
         where s.duplicate
    ), fresh as (
        select m.*, row_number() over (partition by m.place, m.transaction_id order by m.id) as nth
          from moved m
         where not exists (select from seen s where s.place = m.place and s.id = m.transaction_id)
    ), ordered as (
        select f.*, ((f.producer, f.encrypted)
                     is distinct from lag((f.producer, f.encrypted)) over in_place)::int as turn
          from fresh f
         where f.nth = 1 or f.transaction_id is null or not f.deduplicated
        window in_place as (partition by f.place order by f.id)
    ), dealt as (
        select o.*, sum(o.turn) over in_place as turns, (row_number() over in_place - 1) / 1000 as thousand,
               (sum(octet_length(o.payload)) over in_place - octet_length(o.payload)) / 1048576 as mebibyte
          from ordered o
        window in_place as (partition by o.place order by o.id)
    ), segments as (
        select d.place, min(d.id) as first_id, count(*)::int as messages,
               convert_to('[' || string_agg(d.payload, ',' order by d.id) || ']', 'UTF8') as payloads,
               case when count(d.transaction_id) > 0 then json_agg(d.transaction_id order by d.id)::text end as ids,
               case when count(d.trace_id) > 0 then json_agg(d.trace_id order by d.id)::text end as traces,
               case when count(d.headers) > 0 then json_agg(d.headers order by d.id)::text end as headers,
               min(d.producer) as producer, bool_or(d.encrypted) as encrypted, min(d.next_offset) as next_offset
          from dealt d
         group by d.place, d.turns, d.thousand, d.mebibyte
    )
    select array_agg(s.place order by s.place, s.first_id) as places,
           array_agg(s.messages order by s.place, s.first_id) as messages,
           array_agg(s.payloads order by s.place, s.first_id) as payloads,
           array_agg(s.ids order by s.place, s.first_id) as ids,
           array_agg(s.traces order by s.place, s.first_id) as traces,
           array_agg(s.headers order by s.place, s.first_id) as headers,
           array_agg(s.producer order by s.place, s.first_id) as producers,
           array_agg(nullif(s.encrypted, false) order by s.place, s.first_id) as encrypted,
           array_agg(s.next_offset order by s.place, s.first_id) as next_offsets,
           coalesce(sum(s.messages), 0)::int as stored,
           (select count(*)::int from moved) as moved,
           (select array_agg(distinct m.queue_name) from moved m) as queues
      into v_segments from segments s;

    moved := v_segments.moved;
    stored := v_segments.stored;
    if stored > 0 then
        queues := v_segments.queues;
        woken := (select s.woken from queen.push_segments(
                      v_segments.places, v_segments.messages, v_segments.payloads, v_segments.ids, v_segments.traces,
                      v_segments.producers, v_segments.encrypted, v_segments.next_offsets,
                      p_headers => v_segments.headers, p_now => p_now) as s);
    end if;
    return next;
end $$;
comment on function queen.sequence_inbox is 'Move committed inbox rows into their partitions.';
