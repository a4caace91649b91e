-- queen.ensure_partitions: names to ids, creating what is missing.
--
-- A queue that does not exist is created with defaults. A new partition gets its row for every
-- group that reads the queue at once: it is empty, so each group starts at offset 0 and nothing
-- pushed after a group was born is ever skipped. A group that subscribed to a moment in the future skips what comes
-- before it (starts_at).
--
-- Partitions of one queue are created one transaction at a time, under the queue's row lock, so
-- their ids become visible in order: queen.extend_groups relies on that.
--
-- A partition is looked up by queue and name in a query of its own: a join might look up the queue alone, and go through
-- all of its partitions for each name, as long as there are no statistics.
--
-- Locks:   the queue rows, in name order, only if something is missing.
-- Raises:  QN421 bad name, QN430 another incarnation.
create function queen.ensure_partitions(
    p_queues       text[],
    p_partitions   text[],
    p_incarnation  text default null,    -- with which the caller will remember the answer
    p_now          timestamptz default clock_timestamp()
) returns table (
    item int, partition_id bigint, queue_id int, next_offset bigint, encryption_enabled boolean, dedup_window_seconds int
)
language plpgsql
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set jit = off
as $$
#variable_conflict use_column
declare
    v_same   boolean := queen.check_incarnation(p_incarnation);
    v_new    bigint[];
    v_name   text;
    v_queue  int;
begin
    if exists (select from unnest(p_queues, p_partitions) as i (q, p)
                 left join queen.queues q on q.name = i.q
                where (select p.id from queen.partitions p where p.queue_id = q.id and p.name = i.p) is null) then

        perform queen.check_name(q, 'queue'), queen.check_name(p, 'partition')
           from (select distinct q, p from unnest(p_queues, p_partitions) as i (q, p)) as i;

        -- Name by name: an insert waits for another insert of the same name, so it is a lock like the others.
        for v_name in select distinct i.name from unnest(p_queues) as i (name) order by 1 loop
            loop    -- until the row exists and is locked: it may be deleted between the two statements
                perform 1 from queen.queues q where q.name = v_name for no key update;
                exit when found;
                insert into queen.queues (name) values (v_name) on conflict (name) do nothing;
            end loop;
        end loop;

        for v_queue in
            select q.id from queen.queues q
             where q.name = any (p_queues)
               and not exists (select from queen.partitions p where p.queue_id = q.id)
        loop
            perform queen.attach_groups(v_queue);
        end loop;

        with missing as (
            select distinct q.id as queue_id, i.p as name
              from unnest(p_queues, p_partitions) as i (q, p)
              join queen.queues q on q.name = i.q
             where (select p.id from queen.partitions p where p.queue_id = q.id and p.name = i.p) is null
             order by 1, 2
        ), created as (
            insert into queen.partitions (queue_id, name) select m.queue_id, m.name from missing m
            on conflict do nothing returning id, queue_id
        ), looked_up as (
            insert into queen.partition_lookup (partition_id, queue_id) select c.id, c.queue_id from created c
            returning partition_id
        )
        select array_agg(l.partition_id) into v_new from looked_up l;

        insert into queen.partition_consumers (partition_id, group_id, committed, origin, starts_at)
        select p.id, g.id, 0, 0, case when f.any_future then (
                   select s.since from queen.subscription(g.name, g.queue_id, p.name) as s
                    where s.mode <> 'all' and s.since > p_now) end
          from unnest(v_new) as n (id)
          join queen.partitions p on p.id = n.id
          join queen.queue_groups g on g.queue_id = p.queue_id
         cross join (select exists (select from queen.consumer_groups_metadata m where m.since > p_now) as any_future) as f
         where g.queue_wide
            or exists (select from queen.consumer_groups_metadata m join queen.queues q on q.name = m.queue_name
                        where m.group_name = g.name and q.id = p.queue_id and m.partition_name = p.name);
    end if;

    return query
    select i.n::int, p.id, q.id, l.next_offset, q.encryption_enabled, q.dedup_window_seconds
      from unnest(p_queues, p_partitions) with ordinality as i (q, p, n)
      join queen.queues q on q.name = i.q
     cross join lateral (select p.id from queen.partitions p where p.queue_id = q.id and p.name = i.p offset 0) as p
      join queen.partition_lookup l on l.partition_id = p.id;
end $$;
comment on function queen.ensure_partitions is 'Ids of named partitions, created where they are missing.';
