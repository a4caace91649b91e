-- queen.pause: deliver nothing more from a queue, or from it to one group; pushes go on.
--
-- Pops get nothing and long polls wait, also after a restart, until queen.resume is called. See queen.set_paused.
--
-- Raises:  QN404 no such queue, QN407 no such group on it.
-- Returns: whether deliveries were not paused before.
create function queen.pause(p_queue text, p_group text default null) returns boolean
language sql security definer
set search_path = pg_catalog, pg_temp
as $$
    select queen.set_paused(p_queue, p_group, true)
$$;
comment on function queen.pause is 'Pause the deliveries of a queue, or of one group on it.';
