-- A client may name two limits of age for one queue, max_wait_seconds and ttl_seconds. Both are kept as they were given, and the
-- shorter one that is not 0 counts.
alter table queen.queues
    add column ttl_seconds int not null default 0 check (ttl_seconds between 0 and 86400 * 3650),
    add column age_limit_seconds int generated always as
        (coalesce(least(nullif(max_wait_seconds, 0), nullif(ttl_seconds, 0)), 0)) stored;
