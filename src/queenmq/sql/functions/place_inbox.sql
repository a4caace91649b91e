-- queen.place_inbox: give rows of the inbox their places in their partitions.
--
-- In the order of their inbox ids. A queue that is gone is created again. Messages of a full queue stay in the inbox until
-- there is room. A message accepted before its queue became encrypted is stored as it was accepted. Duplicates are
-- dropped. A segment holds up to 1,000 messages, or about 1 MiB.
--
-- Raises:  QN421, QN422, QN428, 22P02 a row that queen.push would not write.
-- Locks:   queue rows; lookup rows in partition_id order; depth_bounds rows of limited queues; the rows of the inbox, which
--          only one sequencer at a time deletes.
-- Returns: how many rows left the inbox, how many of them were stored (the others were duplicates), the partitions where
--          some group had been waiting, the queues written to.
create function queen.place_inbox(
    p_ids         bigint[],    -- three arrays, one element per row
    p_queues      text[],
    p_partitions  text[],
    p_now         timestamptz,    -- null: the clock, read under the locks
    out moved     int,
    out stored    int,
    out woken     bigint[],
    out queues    text[]
)
language plpgsql
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set jit = off
as $$
#variable_conflict use_column
declare
    v_places    bigint[];
    v_segments  record;
begin
    woken := '{}'; queues := '{}';
    -- A row that queen.push has not written may be anything. Names are checked where partitions are created.
    if exists (select from queen.inbox i
                cross join lateral (select i.payload::jsonb as payload offset 0) as p    -- read once
                where i.id = any (p_ids)
                  and (p.payload is null or queen.check_headers(i.headers::jsonb) is distinct from i.headers::jsonb
                       or length(i.transaction_id) not between 1 and 255
                       or octet_length(i.payload) > 330 and queen.check_payload(p.payload, i.payload) is null)) then
        raise exception 'a transaction id has 1 to 255 characters, and headers are null if there are none' using errcode = 'QN422';
    end if;
    select array_agg(e.partition_id order by e.item) into v_places
      from queen.ensure_partitions(p_queues, p_partitions, p_now => p_now) as e;
    perform 1 from queen.partition_lookup l where l.partition_id = any (v_places)
      order by l.partition_id for no key update;
    perform queen.forget_depth(array(select q.id from queen.queues q
                                      where q.name = any (p_queues) and q.max_queue_size > 0));
    p_now := coalesce(p_now, clock_timestamp());

    with room as (
        select q.name, q.max_queue_size - queen.queue_depth(q.id) as messages
          from queen.queues q where q.name = any (p_queues) and q.max_queue_size > 0
    ), numbered as (
        select k.id, k.place, k.queue, row_number() over (partition by k.queue order by k.id) as nth
          from unnest(p_ids, v_places, p_queues) as k (id, place, queue)
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
    ), dealt as (
        select f.*, (row_number() over in_place - 1) / 1000 as thousand,
               (sum(octet_length(f.payload)) over in_place - octet_length(f.payload)) / 1048576 as mebibyte
          from fresh f
         where f.nth = 1 or f.transaction_id is null or not f.deduplicated
        window in_place as (partition by f.place order by f.id)
    ), segments as (
        select d.place, min(d.id) as first_id, count(*)::int as messages,
               convert_to('[' || string_agg(d.payload, ',' order by d.id) || ']', 'UTF8') as payloads,
               case when count(d.transaction_id) > 0 then json_agg(d.transaction_id order by d.id)::text end as ids,
               case when count(d.trace_id) > 0 then json_agg(d.trace_id order by d.id)::text end as traces,
               case when count(d.headers) > 0 then json_agg(d.headers order by d.id)::text end as headers,
               min(d.next_offset) as next_offset
          from dealt d
         group by d.place, d.thousand, d.mebibyte
    )
    select array_agg(s.place order by s.place, s.first_id) as places,
           array_agg(s.messages order by s.place, s.first_id) as messages,
           array_agg(s.payloads order by s.place, s.first_id) as payloads,
           array_agg(s.ids order by s.place, s.first_id) as ids,
           array_agg(s.traces order by s.place, s.first_id) as traces,
           array_agg(s.headers order by s.place, s.first_id) as headers,
           array_agg(null::boolean) as encrypted,    -- see queen.require_encryption
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
                      null, v_segments.encrypted, v_segments.next_offsets,
                      p_headers => v_segments.headers, p_now => p_now) as s);
    end if;
end $$;
comment on function queen.place_inbox is 'Move rows of the inbox into their partitions.';
