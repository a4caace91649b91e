-- queen.place_at: where a subscription puts a group in a partition, and since when there is something to read.
--
-- ready_at may lie in the past: the moment at which the next message was pushed, or became due. So the oldest message
-- is delivered first, also at the first pop of a group. Pops do not skip the past as long as a group has partitions to
-- reach (ready_since of queen.pop_batch). If the clock was moved back, a message may seem to come from the future: it is
-- ready now.
--
-- Returns: starts_at if the subscription begins in the future: messages that come before it are skipped.
create function queen.place_at(
    p_partition_id  bigint,
    p_mode          text,
    p_since         timestamptz,
    p_delayed       int,
    p_window        int,
    p_now           timestamptz,
    out committed   bigint,
    out ready_at    timestamptz,
    out starts_at   timestamptz
)
language plpgsql stable as $$
begin
    if p_mode = 'all' then
        select l.start_offset into committed
          from queen.partition_lookup l where l.partition_id between p_partition_id and p_partition_id
         order by l.partition_id desc limit 1;    -- the index is walked, whatever the planner believes
    else
        committed := queen.offset_at(p_partition_id, p_since);
        starts_at := case when p_since > p_now then p_since end;
    end if;
    ready_at := queen.ready_after(p_partition_id, committed, p_delayed, p_window, '-infinity');
    if ready_at is not null then
        select greatest(ready_at, least(s.created_at, p_now)) into ready_at
          from queen.segments s where s.partition_id = p_partition_id and s.first_offset <= committed
         order by s.first_offset desc limit 1;
    end if;
end $$;
comment on function queen.place_at is 'The cursor of a group that starts in a partition, and since when it is ready.';
