-- queen.ready_after: when a partition that nobody holds will have something for a group.
--
-- null when everything was read; otherwise now, or the end of the delay of the next message,
-- or the end of the partition's quiet window. Never before p_now: pops rely on that.
create function queen.ready_after(
    p_partition_id  bigint,
    p_committed     bigint,
    p_delayed       int,
    p_window        int,
    p_now           timestamptz
) returns timestamptz
language plpgsql stable as $$
declare
    v_ready  timestamptz := p_now;
    v_last   timestamptz;
    v_next   bigint;
begin
    select next_offset, last_message_at into v_next, v_last
      from queen.partition_lookup where partition_id between p_partition_id and p_partition_id
     order by partition_id desc limit 1;    -- the index is walked, whatever the planner believes
    if p_committed >= v_next then
        return null;
    end if;
    if p_delayed > 0 then
        select greatest(v_ready, created_at + make_interval(secs => p_delayed)) into v_ready
          from queen.segments
         where partition_id = p_partition_id and first_offset <= p_committed
         order by first_offset desc limit 1;
    end if;
    if p_window > 0 then
        v_ready := greatest(v_ready, v_last + make_interval(secs => p_window));
    end if;
    return v_ready;
end $$;
comment on function queen.ready_after is 'When an unleased partition is ready for a group; null when all is read.';
