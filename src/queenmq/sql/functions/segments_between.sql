-- queen.segments_between: what was committed to a queue after one tick and up to another.
--
-- Exactly once: whatever ticks someone reads from and to, in turn, no segment is missed and none
-- comes twice. p_from_tick null or 0 is the beginning. After a restore into another cluster the
-- older epochs come first, and completely. In the order of transactions; inside a partition that need
-- not be the order of offsets, so sort by offset where that matters. What retention has deleted is
-- missing.
--
-- Who has kept a tick outside of the database passes its mark as well (select mark from queen.ticks): if PostgreSQL has
-- lost commits since then, the number may be another tick's now.
--
-- Raises:  QN400 no such tick, or the wrong way round, QN404 no such queue, QN431 a tick was lost.
create function queen.segments_between(
    p_queue      text,
    p_from_tick  bigint,
    p_to_tick    bigint,
    p_from_mark  uuid default null,
    p_to_mark    uuid default null
)
returns setof queen.segments
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_queue  int := queen.find_queue(p_queue);
    v_from   queen.ticks := queen.find_tick(p_from_tick, p_from_mark);
    v_to     queen.ticks := queen.find_tick(p_to_tick, p_to_mark);
begin
    if v_from.id > v_to.id then
        raise exception 'tick % comes after tick %', p_from_tick, p_to_tick using errcode = 'QN400';
    end if;
    return query
    select s.* from (
        select * from queen.segments s    -- begun after the first tick, in its epoch
         where s.queue_id = v_queue and s.epoch = v_from.epoch and s.xid >= pg_snapshot_xmax(v_from.snapshot)
           and s.xid < case when v_from.epoch = v_to.epoch then pg_snapshot_xmax(v_to.snapshot)
                            else '18446744073709551615' end
        union all
        select * from queen.segments s    -- running at the first tick
         where s.queue_id = v_queue and s.epoch = v_from.epoch
           and s.xid = any (array(select pg_snapshot_xip(v_from.snapshot)))
        union all
        select * from queen.segments s    -- in later epochs
         where s.queue_id = v_queue and s.epoch > v_from.epoch and s.epoch < v_to.epoch
        union all
        select * from queen.segments s
         where s.queue_id = v_queue and s.epoch > v_from.epoch and s.epoch = v_to.epoch
           and s.xid < pg_snapshot_xmax(v_to.snapshot)) as s
     where s.epoch < v_to.epoch or pg_visible_in_snapshot(s.xid, v_to.snapshot)
     order by s.epoch, s.xid, s.partition_id, s.first_offset;
end $$;
comment on function queen.segments_between is 'Segments committed between two ticks, each exactly once.';
