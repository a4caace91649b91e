-- The roles and their rights. This file runs after each migration that loads anything.
--
-- queen_producer  pushes, also by an insert into queen.messages; reads nothing
-- queen_consumer  takes messages and answers for them
-- queen_reader    sees everything, payloads too, and changes nothing
-- queen_admin     has the rights of the other three, and changes queues, groups, messages and what upkeep changes
--
-- Each function that is granted has one role. All others are parts of these or belong to servers, which use the role that
-- owns the schema. A granted function runs with the owner's rights (security definer), so it sets search_path; tables are
-- granted to nobody. Functions that a view calls are granted to those who may read the view.
--
-- Roles belong to the whole cluster, and several databases share them: they are created if they are missing, and never
-- dropped. If this role may not create them, the migration goes on without; an administrator creates them, and
-- `queen migrate` gives the rights.
do $grants$
declare
    v_roles   constant text[] := '{queen_producer, queen_consumer, queen_reader, queen_admin}';
    v_rights  constant jsonb := $rights${
        "queen_producer": [
            "push"
        ],
        "queen_consumer": [
            "pop", "ack", "renew_lease", "release_lease", "has_pending_messages", "record_event"
        ],
        "queen_reader": [
            "get_message", "find_message", "read_messages", "list_messages", "message_status", "message_id", "message_position",
            "trace", "list_message_events", "list_named_events", "list_event_names",
            "list_dead_letters", "count_dead_letters",
            "list_groups", "describe_group", "why", "pending_partitions", "queue_depth", "queue_totals", "traffic",
            "read_ranges", "safe_time", "changed_partitions",
            "segments_between", "tick_trail", "common_tick", "check_consistency",
            "multirange_size", "count_lapses"
        ],
        "queen_admin": [
            "configure_queue", "clear_queue", "delete_queue", "delete_partition", "delete_message",
            "pause", "resume", "seek_group", "set_subscription", "delete_group",
            "dead_letter_message", "retry_message", "redrive_dead_letters", "purge_dead_letters",
            "sequence_inbox", "retry_set_aside", "delete_set_aside",
            "take_tick", "check_epoch", "retain", "retain_dead_letters", "remove_idle_partitions", "extend_group", "collect_stats",
            "forget_calls", "resync_partition_lookup", "repair_slots"
        ]
    }$rights$;
    v_name    text;
    v_change  text;
begin
    foreach v_name in array v_roles loop
        if to_regrole(v_name) is null then
            begin
                execute format('create role %I', v_name);
            exception
                when insufficient_privilege then null;    -- the loader says so in the log
                when duplicate_object or unique_violation then null;    -- the migration of another database was faster
            end;
        end if;
    end loop;

    foreach v_name in array v_roles[1:3] loop
        if to_regrole(v_name) is not null and to_regrole('queen_admin') is not null
           and not exists (select from pg_auth_members m
                            where m.roleid = to_regrole(v_name) and m.member = to_regrole('queen_admin')) then
            begin
                execute format('grant %I to queen_admin', v_name);
            exception
                when insufficient_privilege then null;
                when unique_violation or internal_error then null;    -- the same, and "tuple concurrently updated"
            end;
        end if;
    end loop;

    select string_agg(l.name, ', ') into v_name
      from jsonb_each(v_rights) as r (role, names) cross join lateral jsonb_array_elements_text(r.names) as l (name)
     where l.name not in (select proname from pg_proc where pronamespace = 'queen'::regnamespace);
    if v_name is not null then
        raise exception 'grants.sql names functions that do not exist: %', v_name;
    end if;

    for v_change in    -- what differs; nothing if all is there
        with roles as (
            select r.name, to_regrole(r.name)::oid as id from unnest(v_roles) as r (name) where to_regrole(r.name) is not null
        ), ours as (
            select unnest(creates) as identity from queen.schema_functions
        ), listed as (
            select r.role, l.name from jsonb_each(v_rights) as r (role, names)
             cross join lateral jsonb_array_elements_text(r.names) as l (name)
        ), routines as (
            select p.oid::regprocedure as routine, p.proname::text as name, p.proowner,
                   coalesce(p.proacl, acldefault('f', p.proowner)) as acl
              from pg_proc p
             where p.pronamespace = 'queen'::regnamespace and 'routine ' || p.oid::regprocedure in (select identity from ours)
        ), views as (
            select c.oid::regclass as name, coalesce(c.relacl, acldefault('r', c.relowner)) as acl,
                   case r.name when 'queen_reader' then 'SELECT' when 'queen_producer' then 'INSERT' end as privilege, r.id as role
              from pg_class c cross join roles r
             where c.relnamespace = 'queen'::regnamespace and 'view ' || c.oid::regclass in (select identity from ours)
               and (r.name = 'queen_reader' or r.name = 'queen_producer' and c.relname = 'messages')
        )
        select format('grant usage on schema queen to %s', r.id::regrole) from roles r
         where not exists (select from pg_namespace n cross join lateral aclexplode(n.nspacl) as a
                            where n.nspname = 'queen' and a.grantee = r.id)
        union all
        select format('revoke execute on routine %s from public', f.routine) from routines f
         where exists (select from aclexplode(f.acl) as a where a.grantee = 0)
        union all
        select format('grant execute on routine %s to %s', f.routine, r.id::regrole)
          from listed l join roles r on r.name = l.role join routines f on f.name = l.name
         where not exists (select from aclexplode(f.acl) as a where a.grantee = r.id)
        union all
        select format('revoke execute on routine %s from %s', f.routine, r.id::regrole) from routines f cross join roles r
         where exists (select from aclexplode(f.acl) as a where a.grantee = r.id)
           and not exists (select from listed l where l.role = r.name and l.name = f.name)
        union all
        select format('grant %s on %s to %s', v.privilege, v.name, v.role::regrole) from views v
         where not exists (select from aclexplode(v.acl) as a where a.grantee = v.role and a.privilege_type = v.privilege)
    loop
        execute v_change;
    end loop;
end $grants$;
