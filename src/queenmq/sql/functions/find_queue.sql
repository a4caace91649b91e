-- queen.find_queue: the id of a queue that must exist.
--
-- Raises:  QN404 no such queue.
create function queen.find_queue(p_queue text) returns int
language plpgsql stable as $$
declare
    v_id  int;
begin
    select id into v_id from queen.queues where name = p_queue;
    if not found then
        raise exception 'there is no queue "%"', p_queue using errcode = 'QN404';
    end if;
    return v_id;
end $$;
comment on function queen.find_queue is 'The id of a queue, or QN404.';
