-- queen.commit_write: make segments of what was staged for one batch of a writer; all of it, once.
--
-- p_stage_ids are the parts of the batch that count, in order; p_segments is how many segments they have together.
-- A batch that is not newer than the last one of this writer is there already, and is dropped. With p_own_ids the
-- transaction ids are the user's: those that the queue knows already, or that come twice, are left out. Whatever
-- else was staged under this writer's name, or by any writer a day ago, is thrown away; so are the names
-- that Spark's batch writes were given a day ago, which nobody can repeat.
--
-- A query numbers its batches from 0 without gaps. If PostgreSQL goes back to an earlier state, it loses the newest
-- ones, and Spark does not write them again: with p_fail_on_gap the next batch is refused. Stage ids that were lost are
-- given out a second time: only what this writer has staged counts.
--
-- Locks:   the writer's row; then as queen.ensure_partitions and queen.append_staged.
-- Raises:  QN406 something staged is gone (it is older than a day), QN431 earlier batches were lost, and what queen.append_staged raises.
-- Returns: how many messages were stored; null when the batch was there already.
create function queen.commit_write(
    p_write_id     text,
    p_epoch        bigint,
    p_queue        text,
    p_stage_ids    bigint[],
    p_segments     bigint,
    p_own_ids      boolean     default false,
    p_now          timestamptz default clock_timestamp(),
    p_fail_on_gap  boolean     default false
) returns bigint
language plpgsql
set jit = off set plan_cache_mode = force_custom_plan
as $$
declare
    v_last      bigint;
    v_names     text[];
    v_ids       bigint[];
    v_queue_id  int;
    v_messages  bigint := 0;
begin
    insert into queen.writes (id, epoch, written_at, messages) values (p_write_id, -1, p_now, 0) on conflict do nothing;
    select epoch into v_last from queen.writes where id = p_write_id for update;
    if v_last >= p_epoch then
        perform queen.discard_staged(p_stage_ids, p_write_id);
        return null;
    end if;
    if p_fail_on_gap and v_last < p_epoch - 1 then
        raise exception 'PostgreSQL has lost batch % to % of the query "%": batch % is to be written, and the last one here is %',
              v_last + 1, p_epoch - 1, p_write_id, p_epoch, case v_last when -1 then 'none' else v_last::text end
              using errcode = 'QN431';
    end if;
    if (select count(*) from queen.staged_segments
         where stage_id = any (p_stage_ids) and write_id = p_write_id) <> p_segments then
        raise exception 'what was staged for batch % of "%" is gone', p_epoch, p_write_id using errcode = 'QN406';
    end if;

    v_names := array(select distinct partition_name from queen.staged_segments where stage_id = any (p_stage_ids) order by 1);
    if v_names <> '{}' then
        select array_agg(e.partition_id), min(e.queue_id) into v_ids, v_queue_id
          from queen.ensure_partitions(array_fill(p_queue, array[cardinality(v_names)]), v_names, p_now => p_now) as e;
        perform 1 from queen.partition_lookup l where l.partition_id = any (v_ids) order by l.partition_id for no key update;
        if p_own_ids then
            perform queen.drop_duplicates(p_stage_ids, v_queue_id, p_now);
        end if;
        v_messages := queen.append_staged(p_stage_ids, v_queue_id);
    end if;

    perform queen.discard_staged(p_stage_ids, p_write_id, p_now - interval '1 day');
    delete from queen.writes
     where id in (select id from queen.writes
                   where id ~ '^save:[0-9a-f-]{36}$' and written_at < p_now - interval '1 day' for update skip locked);
    update queen.writes set epoch = p_epoch, written_at = p_now, messages = v_messages where id = p_write_id;
    return v_messages;
end $$;
comment on function queen.commit_write is 'Store a staged batch of a writer, exactly once; returns its messages.';
