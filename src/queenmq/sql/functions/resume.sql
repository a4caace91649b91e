-- queen.resume: deliver again from a queue, or from it to one group.
--
-- A queue and each of its groups are resumed on their own. Servers look for work within seconds; a server that resumes
-- deliveries itself wakes all long polls at once.
--
-- Raises:  QN404 no such queue, QN407 no such group on it.
-- Returns: whether deliveries were paused before.
create function queen.resume(p_queue text, p_group text default null) returns boolean
language sql security definer
set search_path = pg_catalog, pg_temp
as $$
    select queen.set_paused(p_queue, p_group, false)
$$;
comment on function queen.resume is 'Resume the deliveries of a queue, or of one group on it.';
