-- queen.set_paused: pause or resume the deliveries of a queue, or of one group on it.
--
-- A queue and each of its groups have a switch of their own; a group gets messages if both are off. Leases that a group
-- has stay, and can be acknowledged, renewed and released. A pop that began before the pause was committed may still
-- deliver.
--
-- Locks:   the queue row; then the group's row.
-- Raises:  QN404 no such queue, QN407 no such group on it.
-- Returns: whether this changed anything.
create function queen.set_paused(p_queue text, p_group text, p_paused boolean) returns boolean
language plpgsql as $$
declare
    v_queue    int;
    v_group    int;
    v_changed  boolean;
begin
    select q.id into v_queue from queen.queues q where q.name = p_queue for no key update;
    if not found then
        raise exception 'there is no queue "%"', p_queue using errcode = 'QN404';
    end if;
    if p_group is null then
        update queen.queues set paused = p_paused where id = v_queue and paused <> p_paused;
        return found;
    end if;
    select g.id, g.paused <> p_paused into v_group, v_changed
      from queen.queue_groups g where g.queue_id = v_queue and g.name = p_group order by g.id for no key update;
    if not found then
        raise exception 'there is no group "%" on queue "%"', p_group, p_queue using errcode = 'QN407';
    end if;
    if v_changed then
        update queen.queue_groups set paused = p_paused where id = v_group;
    end if;
    return v_changed;
end $$;
comment on function queen.set_paused is 'Pause or resume the deliveries of a queue or of one group on it.';
