-- queen.traffic: what was pushed and what became of messages, in steps of a minute, an hour or a day.
--
-- From the rows of queen.stats, so it lags by up to a minute and goes back 30 days. Each step counts
-- what was added since the row before; unfinished is how much was left at its end. Every step
-- between p_from and p_to is there, at most 1,500 of them.
--
-- Raises:  QN400 unknown step, no time between from and to, or too many steps, QN404 no such queue.
create function queen.traffic(
    p_from       timestamptz,
    p_to         timestamptz,
    p_step       text default 'hour',
    p_queue      text default null,
    p_namespace  text default null,
    p_task       text default null
) returns table (
    starts_at timestamptz, pushed bigint, completed bigint, dead_lettered bigint, expired bigint, unfinished bigint
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
    v_queue  int := case when p_queue is not null then queen.find_queue(p_queue) end;
begin
    if p_step is null or p_step not in ('minute', 'hour', 'day') then
        raise exception 'a step is a minute, an hour or a day, not "%"', coalesce(p_step, 'null') using errcode = 'QN400';
    elsif p_from is null or p_to is null or p_from >= p_to then
        raise exception 'there is no time between % and %', p_from, p_to using errcode = 'QN400';
    elsif extract(epoch from p_to - p_from) > 1500 * extract(epoch from ('1 ' || p_step)::interval) then
        raise exception 'there are more than 1500 steps of one % between % and %', p_step, p_from, p_to using errcode = 'QN400';
    end if;
    return query
    with counted as (
        select s.queue_id, s.minute, s.pending + s.leased as unfinished,
               -- The first row of a queue counts from 0 if it is as young as its row, and from itself otherwise.
               s.pushed - coalesce(lag(s.pushed) over w, b.base * s.pushed) as pushed,
               s.completed - coalesce(lag(s.completed) over w, b.base * s.completed) as completed,
               s.dead_lettered - coalesce(lag(s.dead_lettered) over w, b.base * s.dead_lettered) as dead_lettered,
               s.expired - coalesce(lag(s.expired) over w, b.base * s.expired) as expired
          from queen.queues q
         cross join lateral (
             select coalesce(max(s.minute), p_from) as minute from queen.stats s
              where s.queue_id = q.id and s.minute < p_from) as f
          join queen.stats s on s.queue_id = q.id and s.minute >= f.minute and s.minute < p_to
         cross join lateral (select (s.minute > q.created_at + interval '10 minutes')::int as base) as b
         where (v_queue is null or q.id = v_queue)
           and (p_namespace is null or q.namespace = p_namespace) and (p_task is null or q.task = p_task)
        window w as (partition by s.queue_id order by s.minute)
    ), stepped as (
        select c.queue_id, date_trunc(p_step, c.minute, 'UTC') as starts_at, sum(greatest(0, c.pushed)) as pushed,
               sum(greatest(0, c.completed)) as completed, sum(greatest(0, c.dead_lettered)) as dead_lettered,
               sum(greatest(0, c.expired)) as expired, (array_agg(c.unfinished order by c.minute desc))[1] as unfinished
          from counted c where c.minute >= p_from
         group by 1, 2
    )
    select t.at, coalesce(sum(s.pushed), 0)::bigint, coalesce(sum(s.completed), 0)::bigint,
           coalesce(sum(s.dead_lettered), 0)::bigint, coalesce(sum(s.expired), 0)::bigint, sum(s.unfinished)::bigint
      from generate_series(date_trunc(p_step, p_from, 'UTC'), p_to - interval '1 microsecond', ('1 ' || p_step)::interval) as t (at)
      left join stepped s on s.starts_at = t.at
     group by t.at order by t.at;
end $$;
comment on function queen.traffic is 'Messages pushed, completed, given up and expired, step by step.';
