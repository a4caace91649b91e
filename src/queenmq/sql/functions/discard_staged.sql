-- queen.discard_staged: throw away what was staged, and not committed: some stages, all of a writer, what is too old.
--
-- Locks:   the rows of staged_segments, in the order of their key: several writers remove what is too old.
create function queen.discard_staged(
    p_stage_ids  bigint[],
    p_write_id   text        default null,
    p_before     timestamptz default '-infinity'
) returns void
language sql
set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
    with discarded as (
        delete from queen.staged_segments
         where ctid = any (array(select ctid from queen.staged_segments
                                  where stage_id = any (p_stage_ids) or write_id = p_write_id or staged_at < p_before
                                  order by stage_id, n for update))
        returning stage_id, n
    )
    delete from queen.segments s using discarded d where s.partition_id = -d.stage_id and s.first_offset = d.n;
$$;
comment on function queen.discard_staged is 'Remove staged segments that will not be committed.';
