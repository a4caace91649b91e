-- queen.give_up: pass over messages that will not be delivered, before a pop delivers the rest.
--
-- Three reasons: they were pushed before the moment at which the group starts (starts_at), they waited
-- longer than the queue's age_limit_seconds, or the head killed every consumer that took it: its lease expired more often than the retry limit allows. Leases that
-- expire say nothing about which message of a batch is to blame, so past the limit queen.pop_batch
-- hands out the head alone, and only a message that was alone is given up.
--
-- A message that was redriven (its retry count is 0) is not given up for its age, until it fails.
--
-- Those before starts_at are skipped. Once a message is there that is not older, all that follow are not older
-- either, and starts_at is forgotten; until then the partition is withheld.
--
-- The others become dead letters, or count as expired where the queue has none. Called for rows the pop
-- has locked and that nobody holds (any more).
--
-- Returns: partitions to withhold: with more to give up than the 10,000 messages one call takes from each, or before
--          the moment at which the group starts.
create function queen.give_up(p_group_id int, p_partition_ids bigint[], p_now timestamptz) returns bigint[]
language plpgsql as $$
declare
    v_queue  record;
    v_row    record;
    v_end    bigint;
    v_gone   bigint[];
    v_error  text;
    v_stale  bigint[] := '{}';
begin
    with skipped as (
        update queen.partition_consumers c
           set committed = n.committed, origin = n.committed, expired = 0,    -- what retention deleted meanwhile is skipped too
               starts_at = case when not n.early then null else c.starts_at end
          from (select o.partition_id, queen.offset_at(o.partition_id, o.starts_at) as committed,
                       coalesce(l.last_message_at < o.starts_at, true) as early
                  from queen.partition_consumers o
                  join queen.partition_lookup l on l.partition_id = o.partition_id
                 where o.group_id = p_group_id and o.partition_id = any (p_partition_ids) and o.starts_at is not null) as n
         where c.group_id = p_group_id and c.partition_id = n.partition_id
        returning c.partition_id, n.early)
    select coalesce(array_agg(s.partition_id) filter (where s.early), '{}') into v_stale from skipped s;

    select q.* into v_queue from queen.queues q
      join queen.queue_groups g on g.queue_id = q.id where g.id = p_group_id;
    for v_row in
        select c.*, lower(r.held) as head,
               queen.count_lapses(c.lapses, lower(r.held)) as lapse_count,
               c.lease_id is not null and queen.count_lapses(c.lapses, lower(r.held)) >= v_queue.retry_limit
               and queen.multirange_size(r.held) = 1 as poison
          from queen.partition_consumers c
         cross join lateral (
             select int8multirange(int8range(greatest(c.lease_from, c.committed), c.lease_to)) - c.acked as held) as r
         where c.group_id = p_group_id and c.partition_id = any (p_partition_ids)
    loop
        v_gone := '{}';
        if v_queue.age_limit_seconds > 0 then
            v_end := queen.offset_at(v_row.partition_id, p_now - make_interval(secs => v_queue.age_limit_seconds));
            v_gone := array(select o
                              from unnest(int8multirange(int8range(v_row.committed, greatest(v_row.committed, v_end)))
                                          - v_row.acked) as r
                             cross join lateral generate_series(lower(r), upper(r) - 1) as o
                             where (v_row.retries ->> o::text) is distinct from '0' limit 10001);
            if cardinality(v_gone) > 10000 then
                v_gone := v_gone[:10000];
                v_stale := v_stale || v_row.partition_id;
            end if;
            v_error := format('waited longer than %s s', v_queue.age_limit_seconds);
        end if;
        if v_gone = '{}' and v_row.poison then
            v_gone := array[v_row.head];
            v_error := format('the lease expired %s times', v_row.lapse_count + 1);
        end if;
        continue when v_gone = '{}';

        if v_queue.dead_letter_enabled then
            perform queen.bury(array_fill(v_row.partition_id, array[cardinality(v_gone)]),
                               array_fill(p_group_id, array[cardinality(v_gone)]), v_gone,
                               array_fill(v_error, array[cardinality(v_gone)]),
                               array(select queen.count_lapses(v_row.lapses, o) + coalesce((v_row.retries ->> o::text)::int, 0)
                                       from unnest(v_gone) as o), p_now);
        end if;
        update queen.partition_consumers c
           set committed = n.committed, acked = n.acked, retries = queen.keep_retries(c.retries, n.committed, n.acked),
               lapses = queen.keep_lapses(queen.add_lapse(c.lapses, c.lease_from, c.lease_to, c.committed, c.acked + c.nacked),
                                          n.committed, n.acked),
               lease_id = null, lease_from = null, lease_to = null, nacked = '{}',
               dead_lettered = c.dead_lettered + case when v_queue.dead_letter_enabled then cardinality(v_gone) else 0 end,
               expired = c.expired + case when v_queue.dead_letter_enabled then 0 else cardinality(v_gone) end
          from queen.advance(v_row.committed, v_row.acked
                             + (select range_agg(int8range(o, o + 1)) from unnest(v_gone) as o)) as n
         where c.partition_id = v_row.partition_id and c.group_id = p_group_id;
    end loop;
    return v_stale;
end $$;
comment on function queen.give_up is 'Dead-letter or expire what waited too long or kills its consumers.';
