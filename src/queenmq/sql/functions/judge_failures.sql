-- queen.judge_failures: what becomes of messages that were not completed.
--
-- Buries those past their retry limit or sent to the dead letters, and tells per ack which offsets
-- are dead, which come back, and the new retry counts. Only what lies in a live lease and is not
-- done yet is judged. Where the queue keeps no dead letters, a message past its limit is counted
-- as expired here and called dead all the same.
create function queen.judge_failures(
    p_partition_ids bigint[], p_group_ids int[], p_lease_ids uuid[],
    p_message_acks int[], p_message_offsets bigint[], p_statuses text[], p_errors text[], p_now timestamptz,
    out dead int8multirange[], out back int8multirange[], out counts jsonb[]
)
language plpgsql as $$
declare
    v_row     record;
    v_one     int8multirange;
begin
    dead := array_fill('{}'::int8multirange, array[cardinality(p_partition_ids)]);
    back := dead;
    counts := array_fill(null::jsonb, array[cardinality(p_partition_ids)]);
    for v_row in
        select m.n, m."offset", m.status, m.error, c.partition_id, c.group_id, q.retry_limit, q.dead_letter_enabled,
               queen.count_lapses(c.lapses, m."offset") + coalesce((c.retries ->> m."offset"::text)::int, 0) as failures,
               coalesce((c.retries ->> m."offset"::text)::int, 0) as counted
          from unnest(p_message_acks, p_message_offsets, p_statuses, p_errors) as m (n, "offset", status, error)
         cross join lateral (select c.* from queen.partition_consumers c    -- offset 0: by its place, not among all that are ready
                              where c.partition_id = p_partition_ids[m.n] and c.group_id = p_group_ids[m.n] offset 0) as c
          join queen.queue_groups g on g.id = c.group_id
          join queen.queues q on q.id = g.queue_id
         where c.lease_id = p_lease_ids[m.n] and c.ready_at > p_now
           and m."offset" >= greatest(c.lease_from, c.committed) and m."offset" < c.lease_to
           and not c.acked @> m."offset"
         order by m.n, m."offset"
    loop
        v_one := int8multirange(int8range(v_row."offset", v_row."offset" + 1));
        continue when dead[v_row.n] @> v_one;
        if v_row.status = 'dlq' or (v_row.status = 'failed' and v_row.failures >= v_row.retry_limit) then
            dead[v_row.n] := dead[v_row.n] + v_one;
            if v_row.status = 'dlq' or v_row.dead_letter_enabled then
                perform queen.bury(array[v_row.partition_id], array[v_row.group_id], array[v_row."offset"],
                                   array[v_row.error], array[v_row.failures], p_now);
            else
                update queen.partition_consumers set expired = expired + 1, dead_lettered = dead_lettered - 1
                 where partition_id = v_row.partition_id and group_id = v_row.group_id;
            end if;
        else
            back[v_row.n] := back[v_row.n] + v_one;
            if v_row.status = 'failed' then
                counts[v_row.n] := coalesce(counts[v_row.n], '{}')
                                   || jsonb_build_object(v_row."offset"::text, v_row.counted + 1);
            end if;
        end if;
    end loop;
end $$;
comment on function queen.judge_failures is 'Bury failed messages past their limit; name those that come back.';
