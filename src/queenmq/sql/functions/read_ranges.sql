-- queen.read_ranges: how far reads by offset may go, so that an answer stays within a number of bytes.
--
-- One array element is one read: a partition by name, the offset to begin at, and how many bytes of payload
-- and headers it is meant to have at most; p_bytes_max counts for all of them together. Ranges [offset, to_offset) end with
-- segments, the one that passes the limit included, so that each read gets something if there is something:
-- until 32 MiB of segments would have to be read, then the rest gets nothing. Payloads are not read here.
--
-- Returns: partition_id null where there is no such partition; to_offset = the offset where nothing is to be read.
create function queen.read_ranges(
    p_queues      text[],
    p_partitions  text[],
    p_offsets     bigint[],
    p_bytes       bigint[],
    p_bytes_max   bigint
) returns table (item int, partition_id bigint, start_offset bigint, next_offset bigint, to_offset bigint)
language plpgsql stable
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    v_left     bigint := p_bytes_max;
    v_loaded   bigint := 0;
    v_used     bigint;
    v_read     record;
    v_segment  record;
begin
    for v_read in
        select i.n, i."offset", i.bytes, l.partition_id, l.start_offset, l.next_offset
          from unnest(p_queues, p_partitions, p_offsets, p_bytes) with ordinality as i (queue, partition, "offset", bytes, n)
          left join queen.queues q on q.name = i.queue
          left join lateral (select p.id from queen.partitions p
                              where p.queue_id = q.id and p.name = i.partition offset 0) as p on true
          left join queen.partition_lookup l on l.partition_id = p.id
         order by i.n
    loop
        item := v_read.n;
        partition_id := v_read.partition_id;
        start_offset := v_read.start_offset;
        next_offset := v_read.next_offset;
        to_offset := v_read."offset";
        if v_read."offset" >= start_offset and v_read."offset" < next_offset and v_loaded < 33554432 then
            v_used := 0;
            for v_segment in
                select s.first_offset + s.message_count as ends, octet_length(s.payloads) + coalesce(octet_length(s.headers), 0) as bytes
                  from queen.segments s
                 where s.partition_id = v_read.partition_id
                   and s.first_offset >= (select b.first_offset from queen.segments b
                                           where b.partition_id = v_read.partition_id
                                             and b.first_offset <= v_read."offset"
                                           order by b.first_offset desc limit 1)
                 order by s.first_offset
            loop
                to_offset := v_segment.ends;
                v_used := v_used + v_segment.bytes;
                v_loaded := v_loaded + v_segment.bytes;
                exit when v_used >= least(v_read.bytes, v_left) or v_loaded >= 33554432;
            end loop;
            v_left := v_left - v_used;
        end if;
        return next;
    end loop;
end $$;
comment on function queen.read_ranges is 'Where reads by offset end, given how many bytes they may have.';
