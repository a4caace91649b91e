-- queen.drop_duplicates: leave out of staged segments what the queue has already, or what comes twice.
--
-- By transaction id, within the queue's dedup window, the first one staged wins. The caller holds the lookup rows of
-- the partitions. Segments that lose nothing are not touched.
create function queen.drop_duplicates(p_stage_ids bigint[], p_names text[], p_partition_ids bigint[], p_now timestamptz)
returns void
language plpgsql
set enable_mergejoin = off set enable_seqscan = off set jit = off
as $$
begin
    create temporary table dropped on commit drop as
    with given as (
        select g.stage_id, g.n, i.id as partition_id, t.task, e.id, e.k
          from unnest(p_stage_ids) with ordinality as t (id, task)
          join queen.staged_segments g on g.stage_id = t.id
          join queen.segments s on s.partition_id = -g.stage_id and s.first_offset = g.n
          join unnest(p_names, p_partition_ids) as i (name, id) on i.name = g.partition_name
          join queen.partition_lookup l on l.partition_id = i.id
          join queen.queues q on q.id = l.queue_id and q.dedup_window_seconds > 0
         cross join lateral json_array_elements_text(s.transaction_ids::json) with ordinality as e (id, k)
    ), seen as (
        select g.partition_id, o.id
          from (select g.partition_id, json_agg(g.id)::text as ids from given g group by g.partition_id) as g
         cross join lateral queen.missed_ids(g.partition_id, null, g.ids, null, p_now) as m
         cross join lateral json_array_elements_text(m.transaction_ids::json) as o (id)
         where m.duplicate
    )
    select g.stage_id, g.n, g.k
      from (select g.*, row_number() over (partition by g.partition_id, g.id order by g.task, g.n, g.k) as nth
              from given g) as g
     where g.nth > 1 or exists (select from seen s where s.partition_id = g.partition_id and s.id = g.id);

    delete from queen.segments s using (select stage_id, n, count(*) as messages from dropped group by 1, 2) as d
     where s.partition_id = -d.stage_id and s.first_offset = d.n and s.message_count = d.messages;
    with kept as (
        select s.partition_id, s.first_offset, count(*) as messages,
               convert_to('[' || string_agg(p.payload::text, ',' order by p.k) || ']', 'UTF8') as payloads,
               json_agg(p.id order by p.k)::text as ids,
               case when count(p.trace) > 0 then json_agg(p.trace order by p.k)::text end as traces
          from queen.segments s
         cross join lateral rows from (
               json_array_elements(convert_from(s.payloads, 'UTF8')::json),
               json_array_elements_text(s.transaction_ids::json),
               json_array_elements_text(s.trace_ids::json)) with ordinality as p (payload, id, trace, k)
         where (s.partition_id, s.first_offset) in (select -d.stage_id, d.n from dropped d)
           and not exists (select from dropped d where d.stage_id = -s.partition_id and d.n = s.first_offset and d.k = p.k)
         group by s.partition_id, s.first_offset
    )
    update queen.segments s
       set message_count = k.messages, payloads = k.payloads, transaction_ids = k.ids, trace_ids = k.traces
      from kept k where s.partition_id = k.partition_id and s.first_offset = k.first_offset;
    drop table dropped;
end $$;
comment on function queen.drop_duplicates is 'Take messages that are there already out of staged segments.';
