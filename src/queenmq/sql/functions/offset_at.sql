-- queen.offset_at: the first offset of a partition that was written at or after a moment.
--
-- Time never runs backwards inside a partition, so this is a binary search over the primary
-- key: a week of a busy partition costs about twenty probes.
create function queen.offset_at(p_partition_id bigint, p_at timestamptz) returns bigint
language plpgsql stable as $$
declare
    v_low   bigint;
    v_high  bigint;
    v_last  timestamptz;
    v_found record;
begin
    select start_offset, next_offset, last_message_at into v_low, v_high, v_last
      from queen.partition_lookup where partition_id between p_partition_id and p_partition_id
     order by partition_id desc limit 1;    -- the index is walked, whatever the planner believes
    if v_last is null or v_last < p_at then
        return v_high;
    end if;
    while v_low < v_high loop
        select first_offset, message_count, created_at into v_found
          from queen.segments
         where partition_id = p_partition_id and first_offset <= (v_low + v_high) / 2
         order by first_offset desc limit 1;
        -- A push that is asking has moved next_offset already, and its segments are not written yet.
        exit when not found or v_found.first_offset + v_found.message_count <= v_low;
        if v_found.created_at < p_at then
            v_low := v_found.first_offset + v_found.message_count;
        else
            v_high := v_found.first_offset;
        end if;
    end loop;
    return v_low;
end $$;
comment on function queen.offset_at is 'The first offset written at or after a moment; the next offset if there is none.';
