-- queen.fit_bytes: how far a reader of a partition gets from an offset on with a number of bytes.
--
-- The range ends between two segments; only where the first segment is too large does it end between two of its messages.
-- It has one message in any case. Bytes are those of payloads and headers as they are stored; sizes of whole segments are
-- known without reading them. A segment counts whole also where the range begins inside of it.
--
-- Returns: the end of the range, p_to at most, and its bytes.
create function queen.fit_bytes(
    p_partition_id  bigint,
    p_from          bigint,
    p_to            bigint,
    p_bytes_max     bigint,
    out to_offset   bigint,
    out bytes       bigint
)
language plpgsql stable as $$
declare
    v_segment  record;
    v_from     bigint;
begin
    to_offset := p_from;
    bytes := 0;
    for v_segment in
        select s.first_offset, s.message_count, s.first_offset + s.message_count as ends,
               octet_length(s.payloads) + coalesce(octet_length(s.headers), 0) as bytes
          from queen.segments s
         where s.partition_id = p_partition_id and s.first_offset < p_to
           and s.first_offset >= coalesce((select b.first_offset from queen.segments b
                                            where b.partition_id = p_partition_id and b.first_offset <= p_from
                                            order by b.first_offset desc limit 1), p_from)
         order by s.first_offset
    loop
        if bytes + v_segment.bytes > p_bytes_max and v_segment.ends > p_from then
            if to_offset = p_from then
                v_from := greatest(p_from, v_segment.first_offset);
                to_offset := v_from + 1;
                bytes := v_segment.bytes;
                if v_segment.message_count > 1 then
                    select least(p_to, v_from + greatest(1, count(*) filter (where e.bytes <= p_bytes_max))),
                           coalesce(max(e.bytes) filter (where e.bytes <= p_bytes_max), min(e.bytes))
                      into to_offset, bytes
                      from (select sum(octet_length(e.payload::text) + coalesce(octet_length(e.headers::text), 0)) over (order by e.n) as bytes
                              from queen.segments s
                             cross join lateral rows from (json_array_elements(convert_from(s.payloads, 'UTF8')::json),
                                                           json_array_elements(s.headers::json))
                                                with ordinality as e (payload, headers, n)
                             where s.partition_id = p_partition_id and s.first_offset = v_segment.first_offset
                               and e.n > v_from - v_segment.first_offset) as e;
                end if;
            end if;
            return;
        end if;
        to_offset := greatest(p_from, least(p_to, v_segment.ends));
        bytes := bytes + v_segment.bytes;
    end loop;
    to_offset := p_to;
end $$;
comment on function queen.fit_bytes is 'The end of a range of messages that has no more than so many bytes.';
