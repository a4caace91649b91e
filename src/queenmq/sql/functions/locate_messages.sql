-- queen.locate_messages: find messages by what their clients call them.
--
-- One array element is one message: a partition, a group, and a transaction id or a message id as
-- text. Looked for in the group's lease first, where acknowledged messages are, then in the last
-- 1,000 segments of the partition. The newest wins where an id was used twice.
--
-- Returns: offset null where nothing was found, group_id null where the queue has no such group, names null where there
--          is no such partition.
create function queen.locate_messages(
    p_partition_ids    bigint[],
    p_groups           text[],
    p_transaction_ids  text[],
    p_now              timestamptz default clock_timestamp()
) returns table (
    item int, group_id int, "offset" bigint, lease_id uuid, lease_live boolean, queue_name text, partition_name text
)
language sql stable
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set jit = off
as $$
    select i.n::int, g.id, coalesce(named.o, leased.o, recent.o), c.lease_id,
           c.lease_id is not null and c.ready_at > p_now, q.name, p.name
      from unnest(p_partition_ids, p_groups, p_transaction_ids) with ordinality as i (id, g, name, n)
      -- offset 0: row by row, whatever the planner believes
      left join lateral (select l.* from queen.partition_lookup l where l.partition_id = i.id offset 0) as l on true
      left join lateral (select q.name from queen.queues q where q.id = l.queue_id offset 0) as q on true
      left join lateral (select p.name from queen.partitions p where p.id = l.partition_id offset 0) as p on true
      left join lateral (select g.id from queen.queue_groups g where g.queue_id = l.queue_id and g.name = i.g offset 0) as g on true
      left join lateral (select c.* from queen.partition_consumers c
                          where c.partition_id = i.id and c.group_id = g.id offset 0) as c on true
      left join lateral (
          select p."offset" as o
            from queen.message_position(case when i.name ~* '^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$'
                                             then i.name::uuid end) as p
           cross join lateral (select s.first_offset + s.message_count as ends, s.created_at from queen.segments s
                                where s.partition_id = i.id and s.first_offset <= p."offset"
                                order by s.first_offset desc limit 1) as s
           where p.partition_id = i.id and p."offset" < s.ends
             and queen.message_id(s.created_at, i.id, p."offset")::text = lower(i.name)) as named on true
      left join lateral (
          select s.first_offset + t.k - 1 as o
            from queen.segments s
           cross join lateral json_array_elements_text(s.transaction_ids::json) with ordinality as t (name, k)
           where named.o is null and s.partition_id = i.id and t.name = i.name and s.first_offset < c.lease_to
             and s.first_offset >= (select b.first_offset from queen.segments b
                                     where b.partition_id = i.id and b.first_offset <= greatest(c.lease_from, l.start_offset)
                                     order by b.first_offset desc limit 1)
             and s.first_offset + t.k - 1 >= c.lease_from and s.first_offset + t.k - 1 < c.lease_to
           order by 1 desc limit 1) as leased on true
      left join lateral (
          select s.first_offset + t.k - 1 as o
            from (select s.first_offset, s.transaction_ids from queen.segments s
                   where named.o is null and leased.o is null and s.partition_id = i.id
                   order by s.first_offset desc limit 1000) as s
           cross join lateral json_array_elements_text(s.transaction_ids::json) with ordinality as t (name, k)
           -- Most segments can be passed over unparsed, unless JSON may have written the name otherwise.
           where (strpos(s.transaction_ids, i.name) > 0 or i.name !~ '^[A-Za-z0-9_.:-]+$') and t.name = i.name
           order by 1 desc limit 1) as recent on true
$$;
comment on function queen.locate_messages is 'Offsets of messages by transaction id or message id.';
