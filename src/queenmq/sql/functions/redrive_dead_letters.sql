-- queen.redrive_dead_letters: deliver dead letters once more.
--
-- A message that is still in the log comes back in its place, for the group that gave it up and for
-- no other: it is as if it had never been done. Its retries start over, and its age is not held
-- against it (age_limit_seconds) the first time. While the group holds a lease on the partition the
-- lease stays as it is, and the message follows when it ends.
--
-- Where that is impossible, because the message has left the log, lies before the group's beginning
-- or the group is gone, it is pushed as a new message at the end of its partition: every group gets
-- it. It keeps its trace id, headers and producer and gets no transaction id, since its own could be
-- refused as a duplicate. Either way the dead letter is gone when this commits. With no filter: all of
-- them. p_limit: no more than that many, the oldest first.
--
-- Locks:   lookup rows, in partition_id order; depth_bounds rows; consumer rows in the same order; the dead letters, in
--          id order.
-- Raises:  QN400 bad limit, QN404 no such queue, QN429 no room for a message that must be pushed anew.
-- Returns: how many dead letters were redriven.
create function queen.redrive_dead_letters(
    p_ids    bigint[]    default null,
    p_queue  text        default null,
    p_group  text        default null,
    p_limit  int         default null,
    p_now    timestamptz default clock_timestamp()
) returns int
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set jit = off
as $$
declare
    v_queue    int := case when p_queue is not null then queen.find_queue(p_queue) end;
    v_letters  bigint[];
    v_ids      bigint[];
    v_anew     jsonb;
    v_count    int;
begin
    if p_limit < 1 then
        raise exception 'the limit is %; it must be 1 or more', p_limit using errcode = 'QN400';
    end if;
    v_letters := array(select id from queen.dead_letters
                        where (p_ids is null or id = any (p_ids)) and (v_queue is null or queue_id = v_queue)
                          and (p_group is null or group_name = p_group)
                        order by id limit p_limit);
    v_ids := array(select distinct partition_id from queen.dead_letters where id = any (v_letters));
    perform 1 from queen.partition_lookup where partition_id = any (v_ids) order by partition_id for no key update;
    perform queen.forget_depth(array(select distinct queue_id from queen.dead_letters where id = any (v_letters)));
    perform 1 from queen.partition_consumers where partition_id = any (v_ids) order by partition_id, group_id for update;

    with letters as (    -- what someone else has redriven or purged meanwhile is not there any more
        delete from queen.dead_letters
         where id = any (array(select id from queen.dead_letters where id = any (v_letters) order by id for update)) returning *
    ), placed as (
        select d.*, c.group_id, c.committed, c.acked
          from letters d
          -- offset 0: row by row, whatever the planner believes
         cross join lateral (select l.* from queen.partition_lookup l where l.partition_id = d.partition_id offset 0) as l
          left join queen.queue_groups g on g.queue_id = d.queue_id and g.name = d.group_name
          left join lateral (select c.* from queen.partition_consumers c
                              where c.partition_id = d.partition_id and c.group_id = g.id offset 0) as c
            on d."offset" >= greatest(c.origin, l.start_offset)
    ), again as (
        select p.partition_id, p.group_id, range_agg(int8range(p."offset", p."offset" + 1)) as undone,
               jsonb_object_agg(p."offset"::text, 0) as retries
          from placed p
         where p."offset" < p.committed or p.acked @> p."offset"
         group by p.partition_id, p.group_id
    ), opened as (
        update queen.partition_consumers c
           set committed = n.committed,
               acked = (c.acked + int8multirange(int8range(n.committed, greatest(c.committed, n.committed)))) - a.undone,
               dead_lettered = c.dead_lettered - n.dead,
               -- Where the book began anew since (queen.seek_group) they were counted otherwise.
               completed = c.completed - n.completed,
               expired = c.expired - (queen.multirange_size(a.undone) - n.dead - n.completed),
               -- A count of 0 says: asked for again, do not give it up for its age (queen.give_up).
               retries = case when q.age_limit_seconds > 0 then coalesce(c.retries, '{}') || a.retries else c.retries end,
               -- The holder of a lease has answered for it: the lease must not wait for another answer.
               nacked = case when c.lease_id is null then c.nacked
                             else c.nacked + a.undone * int8multirange(int8range(c.lease_from, c.lease_to)) end,
               ready_at = case when c.lease_id is not null then c.ready_at
                               else queen.ready_after(c.partition_id, n.committed, q.delayed_processing_seconds,
                                                      q.window_buffer_seconds, p_now) end
          from again a
         cross join lateral (select o.*, o.ctid as place from queen.partition_consumers o
                              where o.partition_id = a.partition_id and o.group_id = a.group_id offset 0) as o
          join queen.queue_groups g on g.id = a.group_id
          join queen.queues q on q.id = g.queue_id
         cross join lateral (
             select least(o.committed, lower(a.undone)) as committed,
                    least(o.dead_lettered, queen.multirange_size(a.undone)) as dead) as d
         cross join lateral (
             select d.committed, d.dead, least(o.completed, queen.multirange_size(a.undone) - d.dead) as completed) as n
         where c.ctid = o.place    -- locked above: it has not moved
    )
    select count(*), jsonb_agg(jsonb_build_object(
               'partition_id', p.partition_id, 'trace_id', p.trace_id, 'producer', p.producer,
               'encrypted', p.encrypted, 'headers', p.headers, 'payload', encode(p.payload, 'base64'))
               order by p.partition_id, p."offset") filter (where p.group_id is null)
      into v_count, v_anew from placed p;

    if v_anew is not null then
        perform queen.push_segments(
            array_agg(m.partition_id), array_agg(1),
            array_agg('['::bytea || decode(m.payload, 'base64') || ']'::bytea), null,
            array_agg(case when m.trace_id is not null then json_build_array(m.trace_id)::text end),
            array_agg(m.producer), array_agg(nullif(m.encrypted, false)),
            p_headers => array_agg(case when m.headers is not null then json_build_array(m.headers)::text end),
            p_now => p_now)
           from jsonb_to_recordset(v_anew)
                as m (partition_id bigint, trace_id uuid, producer text, encrypted boolean, headers json, payload text);
    end if;
    return v_count;
end $$;
comment on function queen.redrive_dead_letters is 'Deliver dead letters again, in place where possible; returns how many.';
