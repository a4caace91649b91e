-- queen.retain: delete what a queue no longer has to keep, one batch at a time.
--
-- From the front of each partition, whole segments only: those older than retention_seconds, read or
-- not, and those older than completed_retention_seconds that every group has finished. A group that
-- has yet to reach a partition still has to read it; where there is no group nothing is finished.
-- What a live lease still has to deliver stays, and all behind it. Messages a group loses unread
-- count as expired. Where the queue is archived, only what is in the archive goes; commits follow offsets, so
-- what was committed to a partition before a tick is its front.
--
-- One call looks at the next p_limit segments in the order they were written, and deletes at most
-- what lies at or before them in their partitions. Call again with the cursor until done; then begin
-- anew, some time later, with none.
--
-- Locks:   lookup rows, then consumer rows, both in partition_id order.
-- Raises:  QN400 bad cursor or limit.
create function queen.retain(
    p_queue_id  int,
    p_cursor    text        default null,
    p_limit     int         default 1000,
    p_now       timestamptz default clock_timestamp()
) returns table (messages bigint, segments int, cursor text, done boolean)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    v_queue   queen.queues;
    v_aged    timestamptz;    -- what is older goes, read or not
    v_old     timestamptz;    -- what is older goes when it is finished
    v_oldest  timestamptz;
    v_walked  int;
    v_ids     bigint[];
    v_ends    bigint[];
    v_starts  bigint[];
    v_unread  bigint;
    v_archive record;         -- its position; what it does not have stays
    v_epoch   smallint;       -- of the newest segment that is deleted
    v_xid     xid8;
begin
    perform queen.check_limit(p_limit, 100000);
    if p_cursor !~ '^\d{1,4}\.\d{1,18}$' then
        raise exception '"%" is not a cursor that retain gave out', p_cursor using errcode = 'QN400';
    end if;
    messages := 0; segments := 0; done := true;
    select * into v_queue from queen.queues where id = p_queue_id;
    if v_queue.retention_enabled is not true or v_queue.retention_seconds + v_queue.completed_retention_seconds = 0 then
        return next;
        return;
    end if;
    select p.epoch, p.snapshot into v_archive
      from queen.archives a cross join lateral queen.position_at(a.tick) as p where a.queue_id = p_queue_id;
    v_aged := p_now - make_interval(secs => nullif(v_queue.retention_seconds, 0));
    v_old := p_now - make_interval(secs => nullif(v_queue.completed_retention_seconds, 0));

    with walked as (
        select s.partition_id, s.first_offset + s.message_count as ends, s.created_at, s.epoch, s.xid
          from queen.segments s
         where s.queue_id = p_queue_id
           and (s.epoch, s.xid) > (split_part(coalesce(p_cursor, '0.0'), '.', 1)::smallint,
                                   split_part(coalesce(p_cursor, '0.0'), '.', 2)::xid8)
         order by s.epoch, s.xid fetch first (p_limit) rows with ties
    ), candidates as (
        select w.partition_id, max(w.ends) as ends from walked w
         where w.created_at < greatest(v_aged, v_old)
           and (v_archive.epoch is null or w.epoch < v_archive.epoch
                or (w.epoch = v_archive.epoch and pg_visible_in_snapshot(w.xid, v_archive.snapshot)))
         group by w.partition_id
    )
    select array_agg(c.partition_id order by c.partition_id), array_agg(c.ends order by c.partition_id),
           (select count(*) from walked), (select min(w.created_at) from walked w),
           (select w.epoch || '.' || w.xid from walked w order by w.epoch desc, w.xid desc limit 1)
      into v_ids, v_ends, v_walked, v_oldest, cursor
      from candidates c;
    done := v_walked < p_limit or v_oldest >= greatest(v_aged, v_old);
    if done then
        cursor := null;
    end if;
    if v_ids is null then
        return next;
        return;
    end if;

    perform 1 from queen.partition_lookup l where l.partition_id = any (v_ids) order by l.partition_id for no key update;
    perform 1 from queen.partition_consumers c where c.partition_id = any (v_ids)
      order by c.partition_id, c.group_id for update;

    select array_agg(l.partition_id), array_agg(n.start_offset) into v_ids, v_starts
      from unnest(v_ids, v_ends) as i (id, ends)
     -- offset 0: row by row, and once, whatever the planner believes
     cross join lateral (select l.* from queen.partition_lookup l where l.partition_id = i.id offset 0) as l
     cross join lateral (
         select coalesce(queen.offset_at(l.partition_id, v_aged), l.start_offset) as aged,
                coalesce(queen.offset_at(l.partition_id, v_old), l.start_offset) as old offset 0) as a
     cross join lateral (
         select min(coalesce(m.committed, a.aged)) as finished,
                min(lower(int8multirange(int8range(greatest(c.lease_from, c.committed), c.lease_to)) - c.acked))
                    filter (where c.lease_id is not null and c.ready_at > p_now) as leased
           from queen.queue_groups g
           left join lateral (select c.* from queen.partition_consumers c
                               where c.partition_id = l.partition_id and c.group_id = g.id offset 0) as c on true
           left join lateral queen.advance(greatest(c.committed, a.aged), c.acked) as m on c.group_id is not null
          where g.queue_id = p_queue_id and (g.queue_wide or c.group_id is not null)) as g
     cross join lateral (
         select least(greatest(a.aged, least(a.old, coalesce(g.finished, a.aged))), g.leased, i.ends) as ends offset 0) as t
     cross join lateral (
         select case when t.ends >= l.next_offset then l.next_offset else (
                    select s.first_offset from queen.segments s
                     where s.partition_id = l.partition_id and s.first_offset <= t.ends
                     order by s.first_offset desc limit 1) end as start_offset offset 0) as n
     where n.start_offset > l.start_offset;

    with deleted as (
        delete from queen.segments s
         where s.ctid = any (array(select s.place from unnest(v_ids, v_starts) as n (id, start_offset)
                                    cross join lateral (select s.ctid as place from queen.segments s
                                                         where s.partition_id = n.id and s.first_offset < n.start_offset
                                                        offset 0) as s))
        returning s.message_count, s.epoch, s.xid
    ), untraced as (
        delete from queen.message_traces t
         where t.ctid = any (array(select t.place from unnest(v_ids, v_starts) as n (id, start_offset)
                                    cross join lateral (select t.ctid as place from queen.message_traces t
                                                         where t.partition_id = n.id and t."offset" < n.start_offset
                                                        offset 0) as t))
    ), unnoted as (
        delete from queen.trace_events e
         where e.ctid = any (array(select e.place from unnest(v_ids, v_starts) as n (id, start_offset)
                                    cross join lateral (select e.ctid as place from queen.trace_events e
                                                         where e.partition_id = n.id and e."offset" < n.start_offset
                                                        offset 0) as e))
    ), moved as (
        update queen.partition_lookup l set start_offset = n.start_offset
          from unnest(v_ids, v_starts) as n (id, start_offset) where l.partition_id = n.id
    )
    select coalesce(sum(d.message_count), 0), count(*),
           (array_agg(d.epoch order by d.epoch desc, d.xid desc))[1], (array_agg(d.xid order by d.epoch desc, d.xid desc))[1]
      into messages, segments, v_epoch, v_xid from deleted d;

    if segments > 0 then
        v_unread := queen.skip_deleted(v_ids, p_now);
        insert into queen.retention_history
            (queue_id, ran_at, partitions, segments, messages, unread, newest_epoch, newest_xid)
        values (p_queue_id, p_now, cardinality(v_ids), segments, messages, v_unread, v_epoch, v_xid);
    end if;
    return next;
end $$;
comment on function queen.retain is 'Delete the next batch of messages a queue need not keep.';
