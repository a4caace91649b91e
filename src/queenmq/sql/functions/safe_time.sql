-- queen.safe_time: a moment before which nothing can still turn out to have been written.
--
-- A push takes its time under the partition's lock and commits later: whoever looks in between sees an
-- earlier moment appear afterwards. Ask this first, then look (in another statement): what was written
-- before the answer is there by then, and what comes later is not older than the answer.
--
-- Whoever writes to partition_lookup has locked the table before it reads the clock and until it has
-- committed, so the oldest transaction that holds such a lock decides; one that only reads does not. Where the owner
-- of this function may not see when it began (another role's, without pg_read_all_stats, or a prepared transaction), nothing
-- is known: the answer is 1970, and all has to be looked at again.
create function queen.safe_time() returns timestamptz
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now     timestamptz := clock_timestamp();    -- before the locks are looked at
    v_oldest  timestamptz;
begin
    select min(case when l.pid is null or a.query = '<insufficient privilege>' then 'epoch' else a.xact_start end)
      into v_oldest
      from pg_locks l
      left join pg_stat_activity a on a.pid = l.pid
     where l.locktype = 'relation' and l.relation = 'queen.partition_lookup'::regclass
       and l.database = (select oid from pg_database where datname = current_database())
       and l.mode = 'RowExclusiveLock' and l.granted;
    return least(v_now, v_oldest);
end $$;
comment on function queen.safe_time is 'A moment such that no write with an earlier one can still appear.';
