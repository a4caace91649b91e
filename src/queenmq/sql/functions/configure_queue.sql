-- queen.configure_queue: create a queue, or change the settings that are named.
--
-- p_namespace and p_task: null leaves them, '' clears them. A queue that moves gets the groups
-- whose subscriptions now cover it; groups it already has stay. A changed delay or window counts
-- at once for partitions that wait for the old one to end; those that are ready already are looked
-- at again by the pop that claims them. A push under way at this moment may still use the old
-- setting once.
--
-- Locks:   the queue row; the rows of new groups; where a delay or window changed, those of queen.hold_back; where
--          only the limit changed, the depth_bounds row.
-- Raises:  QN421 bad name, QN423 unknown option or bad value.
-- Returns: the queue's row as it is now.
create function queen.configure_queue(
    p_queue      text,
    p_namespace  text        default null,
    p_task       text        default null,
    p_options    jsonb       default '{}',
    p_now        timestamptz default clock_timestamp()
) returns queen.queues
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_old      queen.queues;
    v_new      queen.queues;
    v_created  boolean;
begin
    perform queen.check_name(p_queue, 'queue');
    if p_namespace <> '' then perform queen.check_name(p_namespace, 'namespace'); end if;
    if p_task <> '' then perform queen.check_name(p_task, 'task'); end if;
    perform queen.check_options(p_options);

    loop    -- until the row is there and ours: it may be deleted between the two statements
        insert into queen.queues (name, created_at) values (p_queue, p_now) on conflict (name) do nothing;
        v_created := found;
        select * into v_old from queen.queues where name = p_queue for no key update;
        exit when found;
    end loop;

    v_new := jsonb_populate_record(v_old, p_options);
    v_new.namespace := coalesce(p_namespace, v_old.namespace);
    v_new.task := coalesce(p_task, v_old.task);
    update queen.queues
       set namespace = v_new.namespace, task = v_new.task, priority = v_new.priority,
           lease_seconds = v_new.lease_seconds, retry_limit = v_new.retry_limit, retry_delay_ms = v_new.retry_delay_ms,
           retry_backoff = v_new.retry_backoff,
           delayed_processing_seconds = v_new.delayed_processing_seconds,
           window_buffer_seconds = v_new.window_buffer_seconds, max_wait_seconds = v_new.max_wait_seconds,
           ttl_seconds = v_new.ttl_seconds,
           max_queue_size = v_new.max_queue_size, retention_enabled = v_new.retention_enabled,
           retention_seconds = v_new.retention_seconds, completed_retention_seconds = v_new.completed_retention_seconds,
           dead_letter_retention_seconds = v_new.dead_letter_retention_seconds,
           dedup_window_seconds = v_new.dedup_window_seconds, encryption_enabled = v_new.encryption_enabled,
           dead_letter_enabled = v_new.dead_letter_enabled
     where id = v_old.id
    returning * into v_new;

    if v_created or (v_new.namespace, v_new.task) is distinct from (v_old.namespace, v_old.task) then
        perform queen.attach_groups(v_old.id);
    end if;
    if (v_new.delayed_processing_seconds, v_new.window_buffer_seconds)
       is distinct from (v_old.delayed_processing_seconds, v_old.window_buffer_seconds) then
        perform queen.hold_back(v_old.id, p_now);
    elsif v_new.max_queue_size <> v_old.max_queue_size then
        perform queen.forget_depth(array[v_old.id]);
    end if;
    return v_new;
end $$;
comment on function queen.configure_queue is 'Create a queue or change the named settings; returns its row.';
