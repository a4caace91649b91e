-- queen.seek_group: move a group to an offset, a moment, the beginning or the end.
--
-- In one partition or in all that it reads; an offset is cut to what the partition holds. The group's
-- book begins anew at the target: what lies before was never its to read, and nothing is counted yet.
-- A lease on a partition that moves ends: its holder's ack gets QN410.
--
-- Locks:   the queue row and the group's row, if the group has not reached every partition; lookup rows, shared, in
--          partition_id order; the depth_bounds row; the consumer rows in the same order.
-- Raises:  QN400 not exactly one target, QN404, QN405, QN407 no such queue, partition, group.
-- Returns: the number of partitions moved.
create function queen.seek_group(
    p_group      text,
    p_queue      text,
    p_partition  text        default null,
    p_offset     bigint      default null,
    p_timestamp  timestamptz default null,
    p_to         text        default null,    -- beginning or end
    p_now        timestamptz default clock_timestamp()
) returns int
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set jit = off
as $$
declare
    v_queue      int := queen.find_queue(p_queue);
    v_partition  bigint;
    v_group      record;
    v_ids        bigint[];
    v_count      int;
begin
    if num_nonnulls(p_offset, p_timestamp, p_to) <> 1 then
        raise exception 'name one target: an offset, a timestamp, or to (beginning or end)' using errcode = 'QN400';
    elsif p_to not in ('beginning', 'end') then
        raise exception 'a group moves to the beginning or the end, not to "%"', p_to using errcode = 'QN400';
    elsif p_offset < 0 then
        raise exception 'offset % is negative', p_offset using errcode = 'QN400';
    end if;
    select id, not (queue_wide and complete) as incomplete, queue_wide into v_group
      from queen.queue_groups where queue_id = v_queue and name = p_group;
    if not found then
        raise exception 'there is no group "%" on queue "%"', p_group, p_queue using errcode = 'QN407';
    end if;

    if p_partition is not null then
        v_partition := queen.find_partition(p_queue, p_partition);
        if not exists (select from queen.partition_consumers
                        where partition_id = v_partition and group_id = v_group.id) then
            perform queen.extend_group(v_group.id, 1, v_partition, p_now);
        end if;
    elsif v_group.incomplete then    -- all locks first: each chunk takes the depth row after its lookup rows
        perform 1 from queen.queues where id = v_queue for no key update;
        perform 1 from queen.queue_groups where id = v_group.id for no key update;
        perform 1 from queen.partition_lookup where queue_id = v_queue order by partition_id for share;
        if v_group.queue_wide then
            while queen.extend_group(v_group.id, p_now => p_now) > 0 loop end loop;
        else    -- it has popped single partitions; from now on it stands in all of them
            insert into queen.partition_consumers (partition_id, group_id, committed, origin)
            select l.partition_id, v_group.id, l.start_offset, l.start_offset from queen.partition_lookup l
             where l.queue_id = v_queue
               and not exists (select from queen.partition_consumers c
                                where c.partition_id = l.partition_id and c.group_id = v_group.id offset 0);
        end if;
    end if;

    v_ids := case when v_partition is not null then array[v_partition]
                  else array(select partition_id from queen.partition_consumers where group_id = v_group.id) end;
    perform 1 from queen.partition_lookup where partition_id = any (v_ids) order by partition_id for share;
    perform queen.forget_depth(array[v_queue]);
    perform 1 from queen.partition_consumers where partition_id = any (v_ids) and group_id = v_group.id
      order by partition_id for update;
    update queen.partition_consumers c
       set committed = t.target, origin = t.target, completed = 0, dead_lettered = 0, expired = 0, lapses = null,
           starts_at = case when p_timestamp > p_now then p_timestamp end,
           acked = '{}', nacked = '{}', retries = null, lease_id = null, lease_from = null, lease_to = null,
           ready_at = case when t.target >= l.next_offset then null
                           when q.delayed_processing_seconds + q.window_buffer_seconds = 0 then p_now
                           else queen.ready_after(c.partition_id, t.target, q.delayed_processing_seconds,
                                                  q.window_buffer_seconds, p_now) end
      from unnest(v_ids) as k (id)    -- offset 0: row by row, and asked once, whatever the planner believes
     cross join lateral (select l.* from queen.partition_lookup l where l.partition_id = k.id offset 0) as l
     cross join lateral (select o.ctid as place from queen.partition_consumers o
                          where o.partition_id = k.id and o.group_id = v_group.id offset 0) as o
      join queen.queues q on q.id = l.queue_id
     cross join lateral (
         select case when p_to = 'beginning' then l.start_offset
                     when p_to = 'end' then l.next_offset
                     when p_timestamp is not null then queen.offset_at(l.partition_id, p_timestamp)
                     else least(greatest(p_offset, l.start_offset), l.next_offset) end as target offset 0) as t
     where c.ctid = o.place;    -- locked above: it has not moved
    get diagnostics v_count = row_count;
    return v_count;
end $$;
comment on function queen.seek_group is 'Move a group''s cursors; returns the number of partitions moved.';
