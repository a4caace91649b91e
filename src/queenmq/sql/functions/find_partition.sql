-- queen.find_partition: the id of a partition that must exist.
--
-- Raises:  QN404 no such queue, QN405 no such partition in it.
create function queen.find_partition(p_queue text, p_partition text) returns bigint
language plpgsql stable as $$
declare
    v_queue  int := queen.find_queue(p_queue);
    v_id     bigint;
begin
    select id into v_id from queen.partitions where queue_id = v_queue and name = p_partition;
    if not found then
        raise exception 'there is no partition "%" in queue "%"', p_partition, p_queue using errcode = 'QN405';
    end if;
    return v_id;
end $$;
comment on function queen.find_partition is 'The id of a partition, or QN404 or QN405.';
