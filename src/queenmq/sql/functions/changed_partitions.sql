-- queen.changed_partitions: partitions that were written at or after a moment, page by page.
--
-- p_since null: all that were ever written. Pages follow the index, by (last_message_slot, partition_id): the
-- cursor of the last row gives the next page. A partition that is written while somebody turns pages may come
-- again, later; none is left out. queen.safe_time, asked before, is the moment to ask with next time.
--
-- Raises:  QN400 bad cursor or limit, QN404 no such queue.
create function queen.changed_partitions(
    p_queue   text,
    p_since   timestamptz default null,
    p_cursor  text        default null,
    p_limit   int         default 1000
) returns table (
    partition text, partition_id bigint, start_offset bigint, next_offset bigint, last_message_at timestamptz, cursor text
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    v_queue  int := queen.find_queue(p_queue);
    v_slot   timestamptz := '-infinity';
    v_id     bigint := 0;
begin
    perform queen.check_limit(p_limit, 10000);
    if p_cursor !~ '^\d{1,12}\.\d{1,11}$' then
        raise exception '"%" is not a cursor that changed_partitions gave out', p_cursor using errcode = 'QN400';
    elsif p_cursor is not null then
        v_slot := to_timestamp(split_part(p_cursor, '.', 1)::double precision);
        v_id := split_part(p_cursor, '.', 2)::bigint;
    end if;
    if date_bin('10 minutes', p_since, 'epoch') > v_slot then
        v_slot := date_bin('10 minutes', p_since, 'epoch');
        v_id := 0;
    end if;
    return query
    select p.name, l.partition_id, l.start_offset, l.next_offset, l.last_message_at,
           extract(epoch from l.last_message_slot)::bigint || '.' || l.partition_id
      from (select * from queen.partition_lookup l
             where l.queue_id = v_queue and (l.last_message_slot, l.partition_id) > (v_slot, v_id)
               and l.last_message_at >= coalesce(p_since, '-infinity')
             order by l.last_message_slot, l.partition_id limit p_limit) as l
      join queen.partitions p on p.id = l.partition_id
     order by l.last_message_slot, l.partition_id;
end $$;
comment on function queen.changed_partitions is 'Partitions written since a moment, with their ends.';
