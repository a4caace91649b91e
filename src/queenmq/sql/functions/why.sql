-- queen.why: why nothing is delivered, partition by partition.
--
-- A row without a partition speaks of the whole queue: no_queue, no_partition and no_group say that what was
-- asked about does not exist, paused, queue_paused and group_paused that deliveries are, inbox that messages were pushed in transactions and are
-- not yet in their partitions. A partition is leased, delayed, debounced (its window is not quiet yet), retrying,
-- poison (its next message lets leases expire), too_old, subscribed_later, not_reached, read, empty, or ready:
-- then a pop would get it.
--
-- Partitions with work come first, those that are ready soonest before the others; never more than p_limit.
--
-- Raises:  QN400 bad limit.
create function queen.why(
    p_queue      text,
    p_group      text        default '__QUEUE_MODE__',
    p_partition  text        default null,
    p_limit      int         default 100,
    p_now        timestamptz default clock_timestamp()
) returns table (
    partition text, cause text, until timestamptz, messages bigint, "offset" bigint, lease_id uuid, failures int,
    explanation text
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
    v_queue  int;
    v_group  int;
    v_ids    bigint[];
begin
    perform queen.check_limit(p_limit, 10000);
    select q.id into v_queue from queen.queues q where q.name = p_queue;
    select g.id into v_group from queen.queue_groups g where g.queue_id = v_queue and g.name = p_group;

    -- Of the whole queue.
    return query
    select null::text, f.cause, null::timestamptz, f.messages, null::bigint, null::uuid, null::int, f.explanation
      from (select 'no_queue' as cause, null::bigint as messages, format('there is no queue "%s"', p_queue) as explanation
             where v_queue is null
            union all
            select 'no_partition', null, format('there is no partition "%s" in the queue', p_partition)
             where v_queue is not null and p_partition is not null
               and not exists (select from queen.partitions p where p.queue_id = v_queue and p.name = p_partition)
            union all
            select 'no_group', null, case when p_group = '__QUEUE_MODE__'
                                          then 'no consumer without a group has asked for this queue'
                                          else format('no consumer of the group "%s" has asked for this queue', p_group) end
             where v_queue is not null and v_group is null
            union all
            select 'paused', null, 'deliveries are paused in all servers (maintenance)'
              from queen.system_state s where s.pop_paused
            union all
            select 'queue_paused', null, 'deliveries of this queue are paused (queen resume)'
              from queen.queues q where q.id = v_queue and q.paused
            union all
            select 'group_paused', null, 'deliveries of this queue to the group are paused (queen resume --group)'
              from queen.queue_groups g where g.id = v_group and g.paused
            union all
            select 'inbox', i.messages, format('%s messages wait to be put into their partitions, by a server with upkeep', i.messages)
              from (select count(*) as messages from queen.inbox b
                     where b.queue_name = p_queue and b.partition_name = coalesce(p_partition, b.partition_name)) as i
             where i.messages > 0) as f;

    -- Of its partitions.
    if p_partition is not null then
        v_ids := array(select p.id from queen.partitions p where p.queue_id = v_queue and p.name = p_partition);
    else
        v_ids := array(select c.partition_id from queen.partition_consumers c
                        where c.group_id = v_group and c.ready_at is not null order by c.ready_at limit p_limit);
        v_ids := v_ids || array(select l.partition_id from queen.partition_lookup l
                                 where l.queue_id = v_queue and l.partition_id <> all (v_ids)
                                 order by l.partition_id limit p_limit - cardinality(v_ids));
    end if;
    return query
    select p.name, e.cause, e.until, e.messages, e."offset", e.lease_id, e.failures, e.explanation
      from unnest(v_ids) with ordinality as k (id, n)
      join queen.partitions p on p.id = k.id
     cross join lateral queen.explain_place(v_queue, v_group, k.id, p_now) as e
     where v_group is not null
     order by k.n;
end $$;
comment on function queen.why is 'Why a group gets nothing from a queue, or from one of its partitions.';
