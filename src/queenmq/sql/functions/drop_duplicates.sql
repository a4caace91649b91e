-- queen.drop_duplicates: leave out of staged segments what the queue has already, or what comes twice.
--
-- By transaction id, within the queue's dedup window, the first one staged wins. The caller holds the lookup rows of
-- the partitions. Segments that lose nothing are not touched. Each one is found by a look into an index, never by a join:
-- what is staged has no statistics (queen.append_staged).
create function queen.drop_duplicates(p_stage_ids bigint[], p_queue_id int, p_now timestamptz) returns void
language plpgsql
set enable_mergejoin = off set enable_seqscan = off set jit = off
as $$
begin
    if (select dedup_window_seconds from queen.queues where id = p_queue_id) = 0 then
        return;
    end if;
    create temporary table dropped on commit drop as
    with given as (
        select g.stage_id, g.n, i.id as partition_id, t.task, e.id, e.k
          from unnest(p_stage_ids) with ordinality as t (id, task)
          join queen.staged_segments g on g.stage_id = t.id
         cross join lateral (select p.id from queen.partitions p
                              where p.queue_id = p_queue_id and p.name = g.partition_name offset 0) as i
         cross join lateral (select s.transaction_ids from queen.segments s
                              where s.partition_id = -g.stage_id and s.first_offset = g.n offset 0) as s
         cross join lateral json_array_elements_text(s.transaction_ids::json) with ordinality as e (id, k)
    ), seen as (
        select g.partition_id, o.id
          from (select g.partition_id, json_agg(g.id)::text as ids from given g group by g.partition_id) as g
         cross join lateral queen.missed_ids(g.partition_id, null, g.ids, null, p_now) as m
         cross join lateral json_array_elements_text(m.transaction_ids::json) as o (id)
         where m.duplicate
    )
    select c.stage_id, c.n, c.k    -- of those with one id the first is kept, and what is stored comes before all tasks
      from (select c.*, row_number() over (partition by c.partition_id, c.id order by c.task, c.n, c.k) as nth
              from (select g.stage_id, g.n, g.k, g.task, g.partition_id, g.id from given g
                     union all
                    select null, null, null, 0, s.partition_id, s.id from seen s) as c) as c
     where c.nth > 1 and c.task > 0;

    delete from queen.segments
     where ctid = any (array(
               select (select s.ctid from queen.segments s
                        where s.partition_id = -d.stage_id and s.first_offset = d.n and s.message_count = d.messages)
                 from (select stage_id, n, count(*) as messages from dropped group by 1, 2) as d));
    with kept as (
        select s.place, count(*) as messages,
               convert_to('[' || string_agg(p.payload::text, ',' order by p.k) || ']', 'UTF8') as payloads,
               json_agg(p.id order by p.k)::text as ids,
               case when count(p.trace) > 0 then json_agg(p.trace order by p.k)::text end as traces
          from (select distinct stage_id, n from dropped) as g
         cross join lateral (select s.ctid as place, s.payloads, s.transaction_ids, s.trace_ids from queen.segments s
                              where s.partition_id = -g.stage_id and s.first_offset = g.n offset 0) as s
         cross join lateral rows from (
               json_array_elements(convert_from(s.payloads, 'UTF8')::json),
               json_array_elements_text(s.transaction_ids::json),
               json_array_elements_text(s.trace_ids::json)) with ordinality as p (payload, id, trace, k)
         where not exists (select from dropped d where d.stage_id = g.stage_id and d.n = g.n and d.k = p.k)
         group by s.place
    )
    update queen.segments s
       set message_count = k.messages, payloads = k.payloads, transaction_ids = k.ids, trace_ids = k.traces
      from kept k where s.ctid = k.place;
    drop table dropped;
end $$;
comment on function queen.drop_duplicates is 'Take messages that are there already out of staged segments.';
