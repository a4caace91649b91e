-- queen.read_ranges: how far reads by offset may go, so that an answer stays within a number of bytes.
--
-- One array element is one read: a partition by name, the offset to begin at, and how many bytes of payload
-- and headers it is meant to have at most; p_bytes_max counts for all of them together. Ranges [offset, to_offset) end with
-- segments, the one that passes the limit included, so that each read gets something if there is something:
-- until p_loaded_max bytes of segments have to be read, then the rest gets nothing. Payloads are not read here.
--
-- p_previous proves that a reader continues what it has read: when the message before the offset was written. If another
-- message is there now, PostgreSQL has lost the one that was read, and gave its offset out again.
--
-- Returns: partition_id null where there is no such partition; to_offset = the offset where nothing is to be read; lost
--          if the message before the offset is another one. Where it was deleted nobody can tell.
-- Raises:  QN430 another incarnation.
create function queen.read_ranges(
    p_queues       text[],
    p_partitions   text[],
    p_offsets      bigint[],
    p_bytes        bigint[],
    p_bytes_max    bigint,
    p_incarnation  text          default null,    -- of the segments that the caller has in memory
    p_loaded_max   bigint        default 8388608,
    p_previous     timestamptz[] default null
) returns table (item int, partition_id bigint, start_offset bigint, next_offset bigint, to_offset bigint, lost boolean)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    v_same     boolean := queen.check_incarnation(p_incarnation);
    v_left     bigint := p_bytes_max;
    v_loaded   bigint := 0;
    v_used     bigint;
    v_read     record;
    v_segment  record;
begin
    for v_read in
        select i.n, i."offset", i.bytes, i.previous, l.partition_id, l.start_offset, l.next_offset
          from unnest(p_queues, p_partitions, p_offsets, p_bytes, p_previous) with ordinality
               as i (queue, partition, "offset", bytes, previous, n)
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
        lost := false;
        if v_read.previous is not null and v_read."offset" > start_offset then
            lost := v_read."offset" > next_offset or v_read.previous is distinct from (
                select s.created_at from queen.segments s
                 where s.partition_id = v_read.partition_id and s.first_offset < v_read."offset"
                 order by s.first_offset desc limit 1);
        end if;
        if not lost and v_read."offset" >= start_offset and v_read."offset" < next_offset and v_loaded < p_loaded_max then
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
                exit when v_used >= least(v_read.bytes, v_left) or v_loaded >= p_loaded_max;
            end loop;
            v_left := v_left - v_used;
        end if;
        return next;
    end loop;
end $$;
comment on function queen.read_ranges is 'Where reads by offset end, given how many bytes they may have.';
