CREATE SCHEMA queen;

-- function queen.abandon_call(bigint, timestamp with time zone)

-- function queen.ack(uuid, uuid, text, text, timestamp with time zone)

-- function queen.ack_batch(bigint[], integer[], uuid[], integer[], bigint[], bigint[], integer[], bigint[], text[], text[], timestamp with time zone)

-- function queen.ack_once(uuid, bigint[], integer[], uuid[], integer[], bigint[], bigint[], integer[], bigint[], text[], text[], timestamp with time zone)

-- function queen.add_lapse(int8multirange[], bigint, bigint, bigint, int8multirange)

-- function queen.advance(bigint, int8multirange)

-- function queen.advance_group(text, text, smallint, pg_snapshot, boolean, timestamp with time zone, bigint, uuid)

-- function queen.append_staged(bigint[], integer)

-- function queen.attach_groups(integer)

-- function queen.begin_call(bigint, timestamp with time zone)

-- function queen.bury(bigint[], integer[], bigint[], text[], integer[], timestamp with time zone)

-- function queen.bytes_bound(bigint, integer)

-- function queen.changed_partitions(text, timestamp with time zone, text, integer)

-- function queen.check_consistency(timestamp with time zone)

-- function queen.check_epoch()

-- function queen.check_headers(jsonb)

-- function queen.check_incarnation(text)

-- function queen.check_limit(integer, integer)

-- function queen.check_name(text, text)

-- function queen.check_options(jsonb)

-- function queen.check_payload(jsonb, text)

-- function queen.claim_partitions(integer, bigint, timestamp with time zone, integer, timestamp with time zone)

-- function queen.clear_queue(text, timestamp with time zone)

-- function queen.clock_text(timestamp with time zone)

-- function queen.collect_stats(timestamp with time zone)

-- function queen.commit_write(text, bigint, text, bigint[], bigint, boolean, timestamp with time zone, boolean)

CREATE TABLE queen.ticks (
    id bigint NOT NULL,
    epoch smallint NOT NULL,
    snapshot pg_snapshot NOT NULL,
    taken_at timestamp with time zone NOT NULL,
    mark uuid DEFAULT gen_random_uuid() NOT NULL
);

COMMENT ON TABLE queen.ticks IS 'Snapshots of the transaction horizon: between two of them lies an exact set of segments.';

-- function queen.common_tick(bigint, uuid, jsonb)

CREATE TABLE queen.queues (
    id integer NOT NULL,
    name text NOT NULL,
    namespace text DEFAULT ''::text NOT NULL,
    task text DEFAULT ''::text NOT NULL,
    priority integer DEFAULT 0 NOT NULL,
    lease_seconds integer DEFAULT 300 NOT NULL,
    retry_limit integer DEFAULT 3 NOT NULL,
    retry_delay_ms integer DEFAULT 1000 NOT NULL,
    delayed_processing_seconds integer DEFAULT 0 NOT NULL,
    window_buffer_seconds integer DEFAULT 0 NOT NULL,
    max_wait_seconds integer DEFAULT 0 NOT NULL,
    max_queue_size bigint DEFAULT 0 NOT NULL,
    retention_enabled boolean DEFAULT true NOT NULL,
    retention_seconds integer DEFAULT 0 NOT NULL,
    completed_retention_seconds integer DEFAULT 604800 NOT NULL,
    dedup_window_seconds integer DEFAULT 3600 NOT NULL,
    encryption_enabled boolean DEFAULT false NOT NULL,
    dead_letter_enabled boolean DEFAULT true NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    ttl_seconds integer DEFAULT 0 NOT NULL,
    age_limit_seconds integer GENERATED ALWAYS AS (COALESCE(LEAST(NULLIF(max_wait_seconds, 0), NULLIF(ttl_seconds, 0)), 0)) STORED,
    retry_backoff integer DEFAULT 1 NOT NULL,
    dead_letter_retention_seconds integer DEFAULT 2592000 NOT NULL,
    paused boolean DEFAULT false NOT NULL,
    CONSTRAINT queues_completed_retention_seconds_check CHECK (((completed_retention_seconds >= 0) AND (completed_retention_seconds <= (86400 * 3650)))),
    CONSTRAINT queues_dead_letter_retention_seconds_check CHECK (((dead_letter_retention_seconds >= 0) AND (dead_letter_retention_seconds <= (86400 * 3650)))),
    CONSTRAINT queues_dedup_window_seconds_check CHECK (((dedup_window_seconds >= 0) AND (dedup_window_seconds <= (86400 * 30)))),
    CONSTRAINT queues_delayed_processing_seconds_check CHECK (((delayed_processing_seconds >= 0) AND (delayed_processing_seconds <= (86400 * 365)))),
    CONSTRAINT queues_lease_seconds_check CHECK (((lease_seconds >= 1) AND (lease_seconds <= (86400 * 7)))),
    CONSTRAINT queues_max_queue_size_check CHECK ((max_queue_size >= 0)),
    CONSTRAINT queues_max_wait_seconds_check CHECK (((max_wait_seconds >= 0) AND (max_wait_seconds <= (86400 * 3650)))),
    CONSTRAINT queues_retention_seconds_check CHECK (((retention_seconds >= 0) AND (retention_seconds <= (86400 * 3650)))),
    CONSTRAINT queues_retry_backoff_check CHECK (((retry_backoff >= 1) AND (retry_backoff <= 10))),
    CONSTRAINT queues_retry_delay_ms_check CHECK (((retry_delay_ms >= 0) AND (retry_delay_ms <= 86400000))),
    CONSTRAINT queues_retry_limit_check CHECK (((retry_limit >= 0) AND (retry_limit <= 1000))),
    CONSTRAINT queues_ttl_seconds_check CHECK (((ttl_seconds >= 0) AND (ttl_seconds <= (86400 * 3650)))),
    CONSTRAINT queues_window_buffer_seconds_check CHECK (((window_buffer_seconds >= 0) AND (window_buffer_seconds <= (86400 * 7))))
);

COMMENT ON TABLE queen.queues IS 'A queue and its settings.';

-- function queen.configure_queue(text, text, text, jsonb, timestamp with time zone)

-- function queen.count_dead_letters(text, text, text, timestamp with time zone, timestamp with time zone)

-- function queen.count_lapses(int8multirange[], bigint)

-- function queen.current_incarnation()

-- function queen.dead_letter_message(bigint, text, text, text, timestamp with time zone)

-- function queen.delete_group(text, text, boolean)

-- function queen.delete_message(bigint, text, timestamp with time zone)

-- function queen.delete_partition(text, text)

-- function queen.delete_queue(text)

-- function queen.delete_set_aside(bigint[])

-- function queen.describe_events(bigint[], bigint)

-- function queen.describe_group(text, integer, timestamp with time zone)

-- function queen.describe_messages(bigint[], bigint[])

-- function queen.describe_within(bigint[], bigint[], bigint)

-- function queen.discard_staged(bigint[], text, timestamp with time zone)

-- function queen.drop_duplicates(bigint[], integer, timestamp with time zone)

-- function queen.ensure_partitions(text[], text[], text, timestamp with time zone)

-- function queen.erase_queues()

-- function queen.explain_place(integer, integer, bigint, timestamp with time zone)

-- function queen.extend_group(integer, integer, bigint, timestamp with time zone)

-- function queen.extend_groups(integer[], bigint[], integer, timestamp with time zone)

-- function queen.fetch_segments(bigint[], bigint[], bigint[], integer, text)

-- function queen.few_versions(regclass, integer)

-- function queen.find_flush(bigint[], bigint[], uuid)

-- function queen.find_ids(bigint[], bigint[], text[], timestamp with time zone, text)

-- function queen.find_message(bigint, text, text, timestamp with time zone)

-- function queen.find_partition(text, text)

-- function queen.find_queue(text)

-- function queen.find_tick(bigint, uuid)

-- function queen.fit_bytes(bigint, bigint, bigint, bigint)

-- function queen.forget_calls(double precision, integer, timestamp with time zone)

-- function queen.forget_depth(integer[])

-- function queen.general_places(integer, text)

-- function queen.get_message(uuid, text, timestamp with time zone)

-- function queen.give_up(integer, bigint[], timestamp with time zone)

-- function queen.hand_out(integer, integer, bigint[], tid[], bigint[], integer[], integer[], bigint[], boolean[], uuid[], double precision[], boolean[], timestamp with time zone)

-- function queen.hand_out_plain(integer[], integer[], integer[], integer[], integer[], bigint[], boolean[], integer[], double precision[], boolean[], uuid[], timestamp with time zone[], timestamp with time zone, bigint)

-- function queen.has_pending_messages(text, text, text, timestamp with time zone)

-- function queen.has_pending_messages(text[], text[], text[], text[], text[], timestamp with time zone)

-- function queen.hold_back(integer, timestamp with time zone)

-- function queen.idle_partitions(timestamp with time zone, integer, timestamp with time zone, bigint[])

-- function queen.incarnation()

-- function queen.is_duplicate(text, text, text, integer, timestamp with time zone)

-- function queen.is_row_fault(text)

-- function queen.judge_failures(bigint[], integer[], uuid[], integer[], bigint[], text[], text[], timestamp with time zone)

-- function queen.keep_lapses(int8multirange[], bigint, int8multirange)

-- function queen.keep_retries(jsonb, bigint, int8multirange)

-- function queen.limit_messages(integer[], smallint, pg_snapshot, smallint, pg_snapshot, bigint)

-- function queen.list_dead_letters(text, text, text, timestamp with time zone, timestamp with time zone, bigint, integer, integer, bigint)

-- function queen.list_event_names(integer, integer)

-- function queen.list_groups(double precision, timestamp with time zone)

-- function queen.list_message_events(bigint, text, integer, bigint, bigint)

-- function queen.list_messages(text, text, text, text, text, integer, text, text, timestamp with time zone, bigint)

-- function queen.list_named_events(text, integer, integer, bigint)

-- function queen.locate_messages(bigint[], text[], text[], timestamp with time zone)

-- function queen.message_bytes(integer, integer)

-- function queen.message_id(timestamp with time zone, bigint, bigint)

-- function queen.message_position(uuid)

-- function queen.message_sizes(bigint[], integer[], bytea[], text[])

-- function queen.message_status(bigint, bigint, text, timestamp with time zone)

-- function queen.missed_ids(bigint, bigint, text, uuid[], timestamp with time zone)

-- function queen.multirange_size(int8multirange)

-- function queen.offset_at(bigint, timestamp with time zone)

-- function queen.pass_over(bigint, integer[], bigint, boolean, timestamp with time zone)

-- function queen.pause(text, text)

-- function queen.pending_partitions(text, text, integer, timestamp with time zone)

-- function queen.place_at(bigint, text, timestamp with time zone, integer, integer, timestamp with time zone)

-- function queen.place_inbox(bigint[], text[], text[], timestamp with time zone)

-- function queen.pop(text, text, integer, text, boolean, double precision, text, text, text, timestamp with time zone)

-- function queen.pop_batch(text[], text[], text[], text[], text[], integer[], integer[], double precision[], boolean[], uuid[], text[], timestamp with time zone[], timestamp with time zone[], timestamp with time zone, interval, text, text, bigint)

-- function queen.pop_targets(integer[], text[], text[], text[], text[], text[], text[], timestamp with time zone[], timestamp with time zone, text)

-- function queen.position_at(bigint, smallint, xid8, uuid)

-- function queen.purge_dead_letters(bigint[], text, text, timestamp with time zone)

-- function queen.push(text, jsonb, text, text, uuid, jsonb, timestamp with time zone)

-- function queen.push_from_view()

-- function queen.push_segments(bigint[], integer[], bytea[], text[], text[], text[], boolean[], bigint[], uuid, uuid[], text[], timestamp with time zone, text)

-- function queen.push_spooled(uuid, bigint, bigint, bigint[], integer[], bytea[], text[], text[], text[], boolean[], bigint[], uuid, uuid[], text[], timestamp with time zone, text)

-- function queen.queue_depth(integer)

-- function queen.queue_totals(integer[], integer)

-- function queen.reach(bigint, bigint, bigint, int8multirange)

-- function queen.read_messages(text, text, bigint, integer)

-- function queen.read_ranges(text[], text[], bigint[], bigint[], bigint, text, bigint, timestamp with time zone[])

-- function queen.ready_after(bigint, bigint, integer, integer, timestamp with time zone)

-- function queen.recent_ids(bigint[], bigint[], bigint, timestamp with time zone, text)

-- function queen.record_event(bigint, text, text, json, text, text[], timestamp with time zone)

-- function queen.record_subscription(text, text, text, text, text, text, timestamp with time zone, timestamp with time zone, text, integer[])

-- function queen.redrive_dead_letters(bigint[], text, text, integer, timestamp with time zone)

-- function queen.release_lease(uuid[], timestamp with time zone)

-- function queen.remove_idle_partitions(double precision, integer, timestamp with time zone)

-- function queen.remove_partitions(bigint[])

-- function queen.renew_lease(uuid[], double precision[], timestamp with time zone)

-- function queen.repair_slots()

-- function queen.require_encryption(bigint[], boolean[])

-- function queen.reserve_depth(integer, bigint)

-- function queen.restart_places(integer[], bigint[], timestamp with time zone)

-- function queen.resume(text, text)

-- function queen.resync_partition_lookup(text, timestamp with time zone)

-- function queen.retain(integer, text, integer, timestamp with time zone)

-- function queen.retain_dead_letters(integer, integer, timestamp with time zone)

-- function queen.retry_counts(int8multirange[], jsonb, bigint, bigint)

-- function queen.retry_message(bigint, text, text, timestamp with time zone)

-- function queen.retry_set_aside(bigint[])

-- function queen.safe_time()

-- function queen.seek_group(text, text, text, bigint, timestamp with time zone, text, timestamp with time zone)

CREATE TABLE queen.segments (
    partition_id bigint NOT NULL,
    first_offset bigint NOT NULL,
    message_count integer NOT NULL,
    queue_id integer NOT NULL,
    epoch smallint NOT NULL,
    encrypted boolean DEFAULT false NOT NULL,
    xid xid8 DEFAULT pg_current_xact_id() NOT NULL,
    created_at timestamp with time zone NOT NULL,
    flush_id uuid,
    producer text,
    transaction_ids text,
    trace_ids text,
    payloads bytea NOT NULL,
    headers text,
    CONSTRAINT segments_message_count_check CHECK ((message_count > 0))
)
WITH (autovacuum_vacuum_scale_factor='0.05', autovacuum_vacuum_insert_scale_factor='0.2', autovacuum_vacuum_cost_delay='0', toast_tuple_target='8160', toast.autovacuum_vacuum_cost_delay='0');
ALTER TABLE ONLY queen.segments ALTER COLUMN transaction_ids SET STORAGE EXTERNAL;
ALTER TABLE ONLY queen.segments ALTER COLUMN payloads SET STORAGE EXTERNAL;
ALTER TABLE ONLY queen.segments ALTER COLUMN headers SET STORAGE EXTERNAL;

COMMENT ON TABLE queen.segments IS 'Messages first_offset .. first_offset + message_count - 1 of a partition, written once. payloads is the JSON text [p0,p1,...]; transaction_ids, trace_ids and headers are JSON arrays of the same length, or null.';

-- function queen.segments_between(text, bigint, bigint, uuid, uuid)

-- function queen.sequence_inbox(integer, timestamp with time zone)

-- function queen.set_aside_inbox(bigint[], timestamp with time zone)

-- function queen.set_paused(text, text, boolean)

-- function queen.set_subscription(text, text, timestamp with time zone, timestamp with time zone)

-- function queen.settle(integer, bigint[], timestamp with time zone)

-- function queen.skip_deleted(bigint[], timestamp with time zone)

-- function queen.slice_segments(integer[], smallint, pg_snapshot, smallint, pg_snapshot, integer, integer, bigint[], timestamp with time zone, timestamp with time zone)

-- function queen.subscribe(text, text, text, text, text, text, timestamp with time zone, timestamp with time zone)

-- function queen.subscription(text, integer, text)

-- function queen.subscription_mode(text)

-- function queen.take_tick(timestamp with time zone)

-- function queen.tick_trail(bigint)

-- function queen.trace(uuid, integer, bigint)

-- function queen.traffic(timestamp with time zone, timestamp with time zone, text, text, text, text)

-- function queen.transact(bigint[], integer[], uuid[], integer[], bigint[], bigint[], integer[], bigint[], text[], text[], uuid[], bigint[], integer[], bytea[], text[], text[], text[], boolean[], bigint[], uuid, uuid[], text[], timestamp with time zone, text)

-- function queen.wake_groups(bigint[], integer[], boolean, timestamp with time zone)

-- function queen.why(text, text, text, integer, timestamp with time zone)

CREATE TABLE queen.abandoned_calls (
    id bigint NOT NULL,
    abandoned_at timestamp with time zone NOT NULL
);

COMMENT ON TABLE queen.abandoned_calls IS 'Calls that must not happen any more because their callers lost the answer and went on without them.';

CREATE SEQUENCE queen.abandonments
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

COMMENT ON SEQUENCE queen.abandonments IS 'Counts the rows of abandoned_calls; not called while there is none.';

CREATE TABLE queen.partition_consumers (
    partition_id bigint NOT NULL,
    group_id integer NOT NULL,
    committed bigint NOT NULL,
    origin bigint NOT NULL,
    lease_from bigint,
    lease_to bigint,
    ready_at timestamp with time zone,
    lease_id uuid,
    completed bigint DEFAULT 0 NOT NULL,
    dead_lettered bigint DEFAULT 0 NOT NULL,
    expired bigint DEFAULT 0 NOT NULL,
    last_served_at timestamp with time zone,
    acked int8multirange DEFAULT '{}'::int8multirange NOT NULL,
    nacked int8multirange DEFAULT '{}'::int8multirange NOT NULL,
    retries jsonb,
    lapses int8multirange[],
    starts_at timestamp with time zone,
    CONSTRAINT partition_consumers_check CHECK ((origin <= committed)),
    CONSTRAINT partition_consumers_check1 CHECK ((((lease_id IS NULL) = (lease_from IS NULL)) AND ((lease_id IS NULL) = (lease_to IS NULL)))),
    CONSTRAINT partition_consumers_check2 CHECK (((lease_id IS NULL) OR (ready_at IS NOT NULL)))
)
WITH (fillfactor='70', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='5000', autovacuum_analyze_scale_factor='0.1', autovacuum_vacuum_cost_delay='0', vacuum_truncate=off);
ALTER TABLE ONLY queen.partition_consumers REPLICA IDENTITY FULL;

COMMENT ON TABLE queen.partition_consumers IS 'A group''s place in a partition: its cursor, its lease, when it is ready.';

CREATE TABLE queen.partitions (
    id bigint NOT NULL,
    queue_id integer NOT NULL,
    name text NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

COMMENT ON TABLE queen.partitions IS 'A partition''s identity; it never changes.';

CREATE TABLE queen.queue_groups (
    id integer NOT NULL,
    queue_id integer NOT NULL,
    name text NOT NULL,
    queue_wide boolean DEFAULT false NOT NULL,
    complete boolean DEFAULT false NOT NULL,
    reached_partition_id bigint DEFAULT 0 NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    position_epoch smallint,
    "position" pg_snapshot,
    subscribed boolean DEFAULT false NOT NULL,
    paused boolean DEFAULT false NOT NULL
);

COMMENT ON TABLE queen.queue_groups IS 'A group''s presence on a queue.';

CREATE VIEW queen.active_leases AS
 SELECT lease_id,
    queue,
    partition,
    group_name,
    from_offset,
    to_offset,
    remaining,
    expiries,
    expires_at,
    seconds_left,
    queue AS queue_name,
    partition AS partition_name,
    group_name AS consumer_group,
    expires_at AS lease_expires_at,
    remaining AS message_count,
    seconds_left AS seconds_remaining
   FROM ( SELECT c.lease_id,
            q.name AS queue,
            p.name AS partition,
            g.name AS group_name,
            c.lease_from AS from_offset,
            c.lease_to AS to_offset,
            queen.multirange_size(((int8multirange(int8range(GREATEST(c.lease_from, c.committed), GREATEST(c.lease_from, c.committed, c.lease_to))) - c.acked) - c.nacked)) AS remaining,
            queen.count_lapses(c.lapses, c.committed) AS expiries,
            c.ready_at AS expires_at,
            (EXTRACT(epoch FROM (c.ready_at - n.now)))::double precision AS seconds_left
           FROM ((((( SELECT clock_timestamp() AS now) n
             JOIN queen.partition_consumers c ON (((c.lease_id IS NOT NULL) AND (c.ready_at > n.now))))
             JOIN queen.queue_groups g ON ((g.id = c.group_id)))
             JOIN queen.partitions p ON ((p.id = c.partition_id)))
             JOIN queen.queues q ON ((q.id = g.queue_id)))) l;

COMMENT ON VIEW queen.active_leases IS 'Leases that have not expired.';

CREATE TABLE queen.archives (
    queue_id integer NOT NULL,
    location text NOT NULL,
    tick bigint NOT NULL,
    archived_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    mark uuid
);

COMMENT ON TABLE queen.archives IS 'Queues that are archived: where, and up to which tick.';

CREATE TABLE queen.calls (
    id uuid NOT NULL,
    made_at timestamp with time zone NOT NULL,
    answer jsonb
);

COMMENT ON TABLE queen.calls IS 'Acks of failures, and transactions that push nothing: kept for a while, for callers that lose the answer.';

CREATE TABLE queen.consumer_groups_metadata (
    id bigint NOT NULL,
    group_name text NOT NULL,
    queue_name text DEFAULT ''::text NOT NULL,
    partition_name text DEFAULT ''::text NOT NULL,
    namespace text DEFAULT ''::text NOT NULL,
    task text DEFAULT ''::text NOT NULL,
    mode text NOT NULL,
    since timestamp with time zone NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT consumer_groups_metadata_mode_check CHECK ((mode = ANY (ARRAY['all'::text, 'new'::text, 'timestamp'::text])))
);

COMMENT ON TABLE queen.consumer_groups_metadata IS 'Subscriptions: what a group reads, in which mode, since when.';

ALTER TABLE queen.consumer_groups_metadata ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME queen.consumer_groups_metadata_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE queen.dead_letters (
    id bigint NOT NULL,
    queue_id integer NOT NULL,
    partition_id bigint NOT NULL,
    group_name text NOT NULL,
    "offset" bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    failed_at timestamp with time zone NOT NULL,
    retry_count integer NOT NULL,
    error text,
    transaction_id text,
    trace_id uuid,
    producer text,
    encrypted boolean NOT NULL,
    payload bytea NOT NULL,
    headers json
);

COMMENT ON TABLE queen.dead_letters IS 'Messages a group gave up on, with payload, error and origin.';

ALTER TABLE queen.dead_letters ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME queen.dead_letters_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE queen.inbox (
    id bigint NOT NULL,
    queue_name text NOT NULL,
    partition_name text NOT NULL,
    transaction_id text,
    trace_id uuid,
    payload text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    headers json
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='5000', autovacuum_vacuum_cost_delay='0');

COMMENT ON TABLE queen.inbox IS 'Messages pushed inside an application''s own transaction, on their way to their partitions.';

CREATE TABLE queen.partition_lookup (
    partition_id bigint NOT NULL,
    queue_id integer NOT NULL,
    start_offset bigint DEFAULT 0 NOT NULL,
    next_offset bigint DEFAULT 0 NOT NULL,
    last_message_at timestamp with time zone,
    last_message_slot timestamp with time zone,
    message_bytes integer DEFAULT 2147483647 NOT NULL,
    CONSTRAINT partition_lookup_check CHECK (((0 <= start_offset) AND (start_offset <= next_offset)))
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='5000', autovacuum_analyze_scale_factor='0.1', autovacuum_vacuum_cost_delay='0', vacuum_truncate=off);
ALTER TABLE ONLY queen.partition_lookup REPLICA IDENTITY FULL;

COMMENT ON TABLE queen.partition_lookup IS 'A partition''s ends: the oldest message kept and the next offset. Its row lock is the partition''s write lock.';

CREATE VIEW queen.depth AS
 SELECT name AS queue,
    ( SELECT (COALESCE(sum((l.next_offset - l.start_offset)), (0)::numeric))::bigint AS "coalesce"
           FROM queen.partition_lookup l
          WHERE (l.queue_id = q.id)) AS stored,
    queen.queue_depth(id) AS depth,
    ( SELECT count(*) AS count
           FROM queen.inbox i
          WHERE (i.queue_name = q.name)) AS waiting,
    max_queue_size
   FROM queen.queues q;

COMMENT ON VIEW queen.depth IS 'Messages stored and messages unfinished, per queue.';

CREATE TABLE queen.depth_bounds (
    queue_id integer CONSTRAINT queue_depths_queue_id_not_null NOT NULL,
    depth_bound bigint
)
WITH (fillfactor='20', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_cost_delay='0');

COMMENT ON TABLE queen.depth_bounds IS 'For queues with a size limit: an upper bound of the depth; null means count.';

ALTER TABLE queen.inbox ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME queen.inbox_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE queen.inbox_set_aside (
    id bigint NOT NULL,
    queue_name text NOT NULL,
    partition_name text NOT NULL,
    transaction_id text,
    trace_id uuid,
    headers json,
    payload text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    reason text NOT NULL,
    set_aside_at timestamp with time zone NOT NULL
);

COMMENT ON TABLE queen.inbox_set_aside IS 'Rows of the inbox that could not be placed, with the reason: queen.retry_set_aside, queen.delete_set_aside.';

CREATE UNLOGGED TABLE queen.incarnations (
    only_row boolean DEFAULT true NOT NULL,
    token text NOT NULL,
    started_at timestamp with time zone NOT NULL,
    file text NOT NULL,
    CONSTRAINT incarnations_only_row_check CHECK (only_row)
);

COMMENT ON TABLE queen.incarnations IS 'The token of the running PostgreSQL, on which all that servers remember depends. Truncate it and they forget.';

CREATE VIEW queen.lag AS
SELECT
    NULL::text AS queue,
    NULL::text AS group_name,
    NULL::bigint AS partitions_with_lag,
    NULL::bigint AS messages,
    NULL::double precision AS seconds,
    NULL::boolean AS complete;

COMMENT ON VIEW queen.lag IS 'Per queue and group: messages to go, and the age of the oldest.';

CREATE VIEW queen.lag_by_partition AS
 SELECT q.name AS queue,
    g.name AS group_name,
    p.name AS partition,
    c.partition_id,
    c.committed AS "offset",
    l.next_offset,
    ((l.next_offset - c.committed) -
        CASE
            WHEN isempty(c.acked) THEN (0)::bigint
            ELSE queen.multirange_size(c.acked)
        END) AS messages,
    (
        CASE
            WHEN (c.committed < l.next_offset) THEN COALESCE(EXTRACT(epoch FROM (clock_timestamp() - ( SELECT s.created_at
               FROM queen.segments s
              WHERE ((s.partition_id = c.partition_id) AND (s.first_offset <= c.committed))
              ORDER BY s.first_offset DESC
             LIMIT 1))), (0)::numeric)
            ELSE (0)::numeric
        END)::double precision AS seconds
   FROM ((((queen.partition_consumers c
     JOIN queen.partition_lookup l ON ((l.partition_id = c.partition_id)))
     JOIN queen.queue_groups g ON ((g.id = c.group_id)))
     JOIN queen.partitions p ON ((p.id = c.partition_id)))
     JOIN queen.queues q ON ((q.id = g.queue_id)));

COMMENT ON VIEW queen.lag_by_partition IS 'Per group and partition: messages to go, and the age of the oldest.';

CREATE VIEW queen.ledger AS
 SELECT q.name AS queue,
    p.name AS partition,
    g.name AS group_name,
    l.next_offset AS pushed,
    c.origin AS skipped,
    c.completed,
    c.dead_lettered,
    c.expired,
    n.leased,
    (n.undone - n.leased) AS pending,
    (l.next_offset = ((((c.origin + c.completed) + c.dead_lettered) + c.expired) + n.undone)) AS balanced
   FROM ((((((queen.partition_consumers c
     JOIN queen.partition_lookup l ON ((l.partition_id = c.partition_id)))
     JOIN queen.partitions p ON ((p.id = c.partition_id)))
     JOIN queen.queue_groups g ON ((g.id = c.group_id)))
     JOIN queen.queues q ON ((q.id = l.queue_id)))
     CROSS JOIN LATERAL ( SELECT (int8multirange(int8range(c.committed, GREATEST(c.committed, l.next_offset))) - c.acked) AS undone) u)
     CROSS JOIN LATERAL ( SELECT
                CASE
                    WHEN isempty(c.acked) THEN (l.next_offset - c.committed)
                    ELSE queen.multirange_size(u.undone)
                END AS undone,
                CASE
                    WHEN ((c.lease_id IS NOT NULL) AND (c.ready_at > clock_timestamp())) THEN queen.multirange_size((u.undone * int8multirange(int8range(c.lease_from, c.lease_to))))
                    ELSE (0)::bigint
                END AS leased) n);

COMMENT ON VIEW queen.ledger IS 'Per partition and group: what was pushed and what became of it.';

CREATE TABLE queen.message_traces (
    trace_id uuid NOT NULL,
    partition_id bigint NOT NULL,
    "offset" bigint NOT NULL,
    created_at timestamp with time zone NOT NULL
);

COMMENT ON TABLE queen.message_traces IS 'Where the messages of a trace are; only messages that were given a trace id.';

CREATE VIEW queen.messages AS
 SELECT q.name AS queue,
    p.name AS partition,
    s.partition_id,
    ((s.first_offset + e.place) - 1) AS "offset",
    m.id,
    COALESCE(e.transaction_id, (m.id)::text) AS transaction_id,
    (e.trace_id)::uuid AS trace_id,
    s.created_at,
    s.producer,
    s.encrypted,
    (e.headers)::json AS headers,
    e.payload
   FROM ((((queen.queues q
     JOIN queen.partitions p ON ((p.queue_id = q.id)))
     JOIN queen.segments s ON ((s.partition_id = p.id)))
     CROSS JOIN LATERAL ROWS FROM(json_array_elements((convert_from(s.payloads, 'UTF8'::name))::json), json_array_elements_text((s.transaction_ids)::json), json_array_elements_text((s.trace_ids)::json), json_array_elements_text((s.headers)::json)) WITH ORDINALITY e(payload, transaction_id, trace_id, headers, place))
     CROSS JOIN LATERAL ( SELECT queen.message_id(s.created_at, s.partition_id, ((s.first_offset + e.place) - 1)) AS id) m);

COMMENT ON VIEW queen.messages IS 'One row per stored message; insert queue, partition and payload to push.';

CREATE VIEW queen.partition_totals AS
 SELECT queue_id,
    partition_id,
    pushed,
    stored,
    (undone - LEAST(leased, undone)) AS pending,
    LEAST(leased, undone) AS leased,
    retrying,
    completed,
    dead_lettered,
    expired,
    last_message_at
   FROM ( SELECT l.queue_id,
            l.partition_id,
            l.next_offset AS pushed,
            (l.next_offset - l.start_offset) AS stored,
            l.last_message_at,
            COALESCE(max(((l.next_offset - c.committed) -
                CASE
                    WHEN isempty(c.acked) THEN (0)::bigint
                    ELSE queen.multirange_size(c.acked)
                END)), (l.next_offset - l.start_offset)) AS undone,
            COALESCE(max(
                CASE
                    WHEN ((c.lease_id IS NULL) OR (c.ready_at <= clock_timestamp())) THEN (0)::bigint
                    ELSE queen.multirange_size(((int8multirange(int8range(GREATEST(c.lease_from, c.committed), GREATEST(c.lease_from, c.committed, c.lease_to))) - c.acked) - c.nacked))
                END), (0)::bigint) AS leased,
            COALESCE(max(
                CASE
                    WHEN (c.retries IS NULL) THEN (0)::bigint
                    ELSE ( SELECT count(*) AS count
                       FROM jsonb_each_text(c.retries) r(key, value)
                      WHERE (r.value <> '0'::text))
                END), (0)::bigint) AS retrying,
            (COALESCE(sum(c.completed), (0)::numeric))::bigint AS completed,
            (COALESCE(sum(c.dead_lettered), (0)::numeric))::bigint AS dead_lettered,
            (COALESCE(sum(c.expired), (0)::numeric))::bigint AS expired
           FROM (queen.partition_lookup l
             LEFT JOIN queen.partition_consumers c ON ((c.partition_id = l.partition_id)))
          GROUP BY l.queue_id, l.partition_id, l.next_offset, l.start_offset, l.last_message_at) t;

COMMENT ON VIEW queen.partition_totals IS 'Per partition: messages stored, pending, leased and retrying.';

CREATE VIEW queen.partition_utilisation AS
 SELECT queue,
    partitions,
    with_messages,
    leased,
    ready,
    idle,
    queue AS queue_name,
    partitions AS total_partitions,
    leased AS leased_partitions,
    round(((100.0 * (leased)::numeric) / (NULLIF(partitions, 0))::numeric), 2) AS utilisation_pct,
    round(((100.0 * (leased)::numeric) / (NULLIF(partitions, 0))::numeric), 2) AS utilization_pct
   FROM ( SELECT q.name AS queue,
            count(l.partition_id) AS partitions,
            count(*) FILTER (WHERE (l.next_offset > l.start_offset)) AS with_messages,
            count(*) FILTER (WHERE c.leased) AS leased,
            count(*) FILTER (WHERE c.ready) AS ready,
            count(*) FILTER (WHERE ((l.next_offset = l.start_offset) AND (NOT c.leased) AND (NOT c.ready))) AS idle
           FROM ((queen.queues q
             LEFT JOIN queen.partition_lookup l ON ((l.queue_id = q.id)))
             LEFT JOIN LATERAL ( SELECT COALESCE(bool_or(((c_1.lease_id IS NOT NULL) AND (c_1.ready_at > clock_timestamp()))), false) AS leased,
                    COALESCE(bool_or((c_1.ready_at <= clock_timestamp())), false) AS ready
                   FROM queen.partition_consumers c_1
                  WHERE (c_1.partition_id = l.partition_id)) c ON ((l.partition_id IS NOT NULL)))
          GROUP BY q.name) u;

COMMENT ON VIEW queen.partition_utilisation IS 'Partitions per queue: with messages, leased, ready, idle.';

ALTER TABLE queen.partitions ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME queen.partitions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    MAXVALUE 17179869183
    CACHE 1
);

CREATE TABLE queen.pipeline_runs (
    id integer NOT NULL,
    name text NOT NULL,
    arguments json NOT NULL,
    started_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    finished_at timestamp with time zone,
    state text DEFAULT 'running'::text NOT NULL,
    rows bigint,
    error text,
    CONSTRAINT pipeline_runs_check CHECK (((state = 'running'::text) = (finished_at IS NULL))),
    CONSTRAINT pipeline_runs_state_check CHECK ((state = ANY (ARRAY['running'::text, 'done'::text, 'failed'::text])))
);

COMMENT ON TABLE queen.pipeline_runs IS 'Which pipelines ran, with what arguments, and what became of them.';

ALTER TABLE queen.pipeline_runs ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME queen.pipeline_runs_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE VIEW queen.queue_depths AS
 SELECT q.name AS queue_name,
    d.current_depth,
    q.max_queue_size,
        CASE
            WHEN (q.max_queue_size > 0) THEN GREATEST((q.max_queue_size - d.current_depth), (0)::bigint)
            ELSE NULL::bigint
        END AS remaining_capacity
   FROM (queen.queues q
     CROSS JOIN LATERAL ( SELECT queen.queue_depth(q.id) AS current_depth
         OFFSET 0) d);

COMMENT ON VIEW queen.queue_depths IS 'Unfinished messages of each queue, its limit, and how many more it takes.';

ALTER TABLE queen.queue_groups ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME queen.queue_groups_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE queen.queues ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME queen.queues_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE queen.retention_history (
    id bigint NOT NULL,
    queue_id integer NOT NULL,
    ran_at timestamp with time zone NOT NULL,
    partitions integer NOT NULL,
    segments integer NOT NULL,
    messages bigint NOT NULL,
    unread bigint NOT NULL,
    newest_epoch smallint,
    newest_xid xid8,
    dead_letters bigint DEFAULT 0 NOT NULL
);

COMMENT ON TABLE queen.retention_history IS 'What retention deleted, and how much of it some group had not read.';

ALTER TABLE queen.retention_history ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME queen.retention_history_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE queen.schema_functions (
    name text NOT NULL,
    hash text NOT NULL,
    creates text[] NOT NULL,
    loaded_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

COMMENT ON TABLE queen.schema_functions IS 'The files of functions and views in this database, with what each one created.';

CREATE TABLE queen.schema_version (
    version integer NOT NULL,
    name text NOT NULL,
    breaking boolean NOT NULL,
    applied_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

COMMENT ON TABLE queen.schema_version IS 'The steps of the schema that this database has taken.';

CREATE VIEW queen.set_aside AS
 SELECT id,
    queue_name AS queue,
    partition_name AS partition,
    transaction_id,
    trace_id,
    created_at,
    payload,
    reason,
    set_aside_at
   FROM queen.inbox_set_aside;

COMMENT ON VIEW queen.set_aside IS 'Messages that were pushed in a transaction and could not be placed, with the reason.';

CREATE TABLE queen.spool_positions (
    segment_id uuid NOT NULL,
    "position" bigint NOT NULL,
    CONSTRAINT spool_positions_position_check CHECK (("position" >= 0))
)
WITH (fillfactor='50');

COMMENT ON TABLE queen.spool_positions IS 'How many messages of a server''s spool file are stored.';

CREATE SEQUENCE queen.stage_ids
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE queen.staged_segments (
    stage_id bigint NOT NULL,
    n integer NOT NULL,
    write_id text NOT NULL,
    partition_name text NOT NULL,
    staged_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

COMMENT ON TABLE queen.staged_segments IS 'Segments of a batch that is being written: in queen.segments they have the partition -stage_id and the offset n, where nobody reads, until queen.commit_write gives them their places.';

CREATE TABLE queen.stats (
    minute timestamp with time zone NOT NULL,
    queue_id integer NOT NULL,
    partitions bigint NOT NULL,
    pushed bigint NOT NULL,
    stored bigint NOT NULL,
    completed bigint NOT NULL,
    dead_lettered bigint NOT NULL,
    expired bigint NOT NULL,
    pending bigint NOT NULL,
    leased bigint NOT NULL,
    retrying bigint NOT NULL,
    dead_letters bigint NOT NULL
);

COMMENT ON TABLE queen.stats IS 'Totals of each queue, minute by minute. Differences of pushed, completed, dead_lettered and expired are rates; the others are what was there.';

CREATE VIEW queen.stuck_partitions AS
 SELECT q.name AS queue,
    p.name AS partition,
    g.name AS group_name,
    r.reason,
    c.committed AS "offset",
    n.failures,
    c.lease_id,
    c.ready_at,
    (EXTRACT(epoch FROM (c.ready_at - n.now)))::double precision AS seconds_left,
    q.name AS queue_name,
    p.name AS partition_name,
    g.name AS consumer_group,
        CASE
            WHEN (c.lease_id IS NOT NULL) THEN c.ready_at
            ELSE NULL::timestamp with time zone
        END AS lease_expires_at,
        CASE
            WHEN (c.lease_id IS NOT NULL) THEN c.last_served_at
            ELSE NULL::timestamp with time zone
        END AS lease_started_at,
        CASE
            WHEN (c.lease_id IS NOT NULL) THEN (EXTRACT(epoch FROM (n.now - c.last_served_at)))::double precision
            ELSE NULL::double precision
        END AS lease_held_seconds
   FROM (((((queen.partition_consumers c
     JOIN queen.queue_groups g ON ((g.id = c.group_id)))
     JOIN queen.queues q ON ((q.id = g.queue_id)))
     JOIN queen.partitions p ON ((p.id = c.partition_id)))
     CROSS JOIN LATERAL ( SELECT clock_timestamp() AS now,
            k.lapses,
            (k.lapses + COALESCE(((c.retries ->> (c.committed)::text))::integer, 0)) AS failures
           FROM ( SELECT queen.count_lapses(c.lapses, c.committed) AS lapses) k) n)
     CROSS JOIN LATERAL ( SELECT
                CASE
                    WHEN ((c.lease_id IS NOT NULL) AND (c.ready_at <= n.now)) THEN 'abandoned'::text
                    WHEN ((n.lapses > 0) AND (n.lapses >= q.retry_limit)) THEN 'poison'::text
                    WHEN ((c.lease_id IS NOT NULL) AND ((c.ready_at - n.now) < make_interval(secs => (GREATEST((10)::numeric, ((q.lease_seconds)::numeric / 10.0)))::double precision))) THEN 'expiring'::text
                    WHEN (n.failures > 0) THEN 'retrying'::text
                    ELSE NULL::text
                END AS reason) r)
  WHERE ((c.ready_at IS NOT NULL) AND (r.reason IS NOT NULL));

COMMENT ON VIEW queen.stuck_partitions IS 'Partitions whose lease runs out or whose next message keeps failing.';

CREATE TABLE queen.system_state (
    singleton boolean DEFAULT true NOT NULL,
    epoch smallint DEFAULT 1 NOT NULL,
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    push_paused boolean DEFAULT false NOT NULL,
    pop_paused boolean DEFAULT false NOT NULL,
    CONSTRAINT system_state_singleton_check CHECK (singleton)
);

COMMENT ON TABLE queen.system_state IS 'The epoch of transaction ids, which installation of Queen this is, and whether it is in maintenance.';

CREATE TABLE queen.tick_incarnations (
    first_tick bigint NOT NULL,
    token text NOT NULL,
    previous_tick bigint NOT NULL
);

COMMENT ON TABLE queen.tick_incarnations IS 'Which incarnation of PostgreSQL took the ticks from first_tick on, up to those of the next row.';

ALTER TABLE queen.ticks ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME queen.ticks_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE queen.trace_event_names (
    name text NOT NULL,
    event_id bigint NOT NULL
);

COMMENT ON TABLE queen.trace_event_names IS 'The names under which an event can be found.';

CREATE TABLE queen.trace_events (
    id bigint NOT NULL,
    partition_id bigint NOT NULL,
    "offset" bigint NOT NULL,
    transaction_id text NOT NULL,
    group_name text NOT NULL,
    event_type text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    data json NOT NULL
);

COMMENT ON TABLE queen.trace_events IS 'What consumers noted about messages; gone when the message is gone.';

ALTER TABLE queen.trace_events ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME queen.trace_events_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE VIEW queen.unread AS
 SELECT q.name AS queue,
    u.partitions,
    u.pushed,
    u.messages,
    (GREATEST((0)::numeric, EXTRACT(epoch FROM (clock_timestamp() - u.oldest_at))))::double precision AS seconds
   FROM ((queen.queues q
     CROSS JOIN LATERAL ( SELECT (EXISTS ( SELECT
                   FROM queen.queue_groups g_1
                  WHERE (g_1.queue_id = q.id))) AS "some",
            (EXISTS ( SELECT
                   FROM queen.queue_groups g_1
                  WHERE ((g_1.queue_id = q.id) AND g_1.queue_wide))) AS whole) g)
     CROSS JOIN LATERAL ( SELECT count(*) FILTER (WHERE (l.next_offset > l.start_offset)) AS partitions,
            (sum(l.next_offset))::bigint AS pushed,
            (sum((l.next_offset - l.start_offset)))::bigint AS messages,
            ( SELECT s.created_at
                   FROM queen.segments s
                  WHERE (s.queue_id = q.id)
                  ORDER BY s.epoch, s.xid
                 LIMIT 1) AS oldest_at
           FROM queen.partition_lookup l
          WHERE ((NOT g."some") AND (l.queue_id = q.id))
        UNION ALL
         SELECT count(*) FILTER (WHERE (l.next_offset > l.start_offset)) AS count,
            (sum(l.next_offset))::bigint AS sum,
            (sum((l.next_offset - l.start_offset)))::bigint AS sum,
            min(( SELECT s.created_at
                   FROM queen.segments s
                  WHERE ((s.partition_id = l.partition_id) AND (s.first_offset <= l.start_offset))
                  ORDER BY s.first_offset DESC
                 LIMIT 1)) AS min
           FROM queen.partition_lookup l
          WHERE (g."some" AND (NOT g.whole) AND (l.queue_id = q.id) AND (NOT (EXISTS ( SELECT
                   FROM queen.partition_consumers c
                  WHERE (c.partition_id = l.partition_id)))))) u)
  WHERE (u.messages > 0);

COMMENT ON VIEW queen.unread IS 'Per queue: stored messages that no consumer group has asked for, and the age of the oldest.';

CREATE TABLE queen.writes (
    id text NOT NULL,
    epoch bigint NOT NULL,
    written_at timestamp with time zone NOT NULL,
    messages bigint NOT NULL
);

COMMENT ON TABLE queen.writes IS 'Which batch of a writer was stored last, so that none is stored twice.';

ALTER TABLE ONLY queen.abandoned_calls
    ADD CONSTRAINT abandoned_calls_pkey PRIMARY KEY (id);

ALTER TABLE ONLY queen.archives
    ADD CONSTRAINT archives_pkey PRIMARY KEY (queue_id);

ALTER TABLE ONLY queen.calls
    ADD CONSTRAINT calls_pkey PRIMARY KEY (id);

ALTER TABLE ONLY queen.consumer_groups_metadata
    ADD CONSTRAINT consumer_groups_metadata_group_name_queue_name_partition_na_key UNIQUE (group_name, queue_name, partition_name, namespace, task);

ALTER TABLE ONLY queen.consumer_groups_metadata
    ADD CONSTRAINT consumer_groups_metadata_pkey PRIMARY KEY (id);

ALTER TABLE ONLY queen.dead_letters
    ADD CONSTRAINT dead_letters_pkey PRIMARY KEY (id);

ALTER TABLE ONLY queen.depth_bounds
    ADD CONSTRAINT depth_bounds_pkey PRIMARY KEY (queue_id);

ALTER TABLE ONLY queen.inbox
    ADD CONSTRAINT inbox_pkey PRIMARY KEY (id);

ALTER TABLE ONLY queen.inbox_set_aside
    ADD CONSTRAINT inbox_set_aside_pkey PRIMARY KEY (id);

ALTER TABLE ONLY queen.incarnations
    ADD CONSTRAINT incarnations_pkey PRIMARY KEY (only_row);

ALTER TABLE ONLY queen.message_traces
    ADD CONSTRAINT message_traces_pkey PRIMARY KEY (trace_id, partition_id, "offset");

ALTER TABLE ONLY queen.partitions
    ADD CONSTRAINT partitions_pkey PRIMARY KEY (id);

ALTER TABLE ONLY queen.partitions
    ADD CONSTRAINT partitions_queue_id_name_key UNIQUE (queue_id, name);

ALTER TABLE ONLY queen.pipeline_runs
    ADD CONSTRAINT pipeline_runs_pkey PRIMARY KEY (id);

ALTER TABLE ONLY queen.queue_groups
    ADD CONSTRAINT queue_groups_pkey PRIMARY KEY (id);

ALTER TABLE ONLY queen.queue_groups
    ADD CONSTRAINT queue_groups_queue_id_name_key UNIQUE (queue_id, name);

ALTER TABLE ONLY queen.queues
    ADD CONSTRAINT queues_name_key UNIQUE (name);

ALTER TABLE ONLY queen.queues
    ADD CONSTRAINT queues_pkey PRIMARY KEY (id);

ALTER TABLE ONLY queen.retention_history
    ADD CONSTRAINT retention_history_pkey PRIMARY KEY (id);

ALTER TABLE ONLY queen.schema_functions
    ADD CONSTRAINT schema_functions_pkey PRIMARY KEY (name);

ALTER TABLE ONLY queen.schema_version
    ADD CONSTRAINT schema_version_pkey PRIMARY KEY (version);

ALTER TABLE ONLY queen.segments
    ADD CONSTRAINT segments_pkey PRIMARY KEY (partition_id, first_offset);

ALTER TABLE ONLY queen.spool_positions
    ADD CONSTRAINT spool_positions_pkey PRIMARY KEY (segment_id);

ALTER TABLE ONLY queen.staged_segments
    ADD CONSTRAINT staged_segments_pkey PRIMARY KEY (stage_id, n);

ALTER TABLE ONLY queen.stats
    ADD CONSTRAINT stats_pkey PRIMARY KEY (queue_id, minute);

ALTER TABLE ONLY queen.system_state
    ADD CONSTRAINT system_state_pkey PRIMARY KEY (singleton);

ALTER TABLE ONLY queen.tick_incarnations
    ADD CONSTRAINT tick_incarnations_pkey PRIMARY KEY (first_tick);

ALTER TABLE ONLY queen.ticks
    ADD CONSTRAINT ticks_pkey PRIMARY KEY (id);

ALTER TABLE ONLY queen.trace_event_names
    ADD CONSTRAINT trace_event_names_pkey PRIMARY KEY (name, event_id);

ALTER TABLE ONLY queen.trace_events
    ADD CONSTRAINT trace_events_pkey PRIMARY KEY (id);

ALTER TABLE ONLY queen.writes
    ADD CONSTRAINT writes_pkey PRIMARY KEY (id);

CREATE INDEX calls_made_at ON queen.calls USING btree (made_at);

CREATE INDEX consumer_groups_metadata_queue ON queen.consumer_groups_metadata USING btree (queue_name);

CREATE INDEX consumer_groups_metadata_since ON queen.consumer_groups_metadata USING btree (since);

CREATE INDEX dead_letters_message ON queen.dead_letters USING btree (partition_id, "offset");

CREATE INDEX dead_letters_queue ON queen.dead_letters USING btree (queue_id, id);

CREATE INDEX message_traces_partition ON queen.message_traces USING btree (partition_id, "offset");

CREATE INDEX partition_consumers_lease ON queen.partition_consumers USING btree (lease_id) WHERE (lease_id IS NOT NULL);

CREATE INDEX partition_consumers_place ON queen.partition_consumers USING btree (partition_id, group_id) WITH (deduplicate_items=off);

CREATE INDEX partition_consumers_ready ON queen.partition_consumers USING btree (group_id, ready_at) WHERE (ready_at IS NOT NULL);

CREATE INDEX partition_lookup_partition ON queen.partition_lookup USING btree (partition_id) WITH (deduplicate_items=off);

CREATE INDEX partition_lookup_queue ON queen.partition_lookup USING btree (queue_id, partition_id);

CREATE INDEX partition_lookup_written ON queen.partition_lookup USING btree (queue_id, last_message_slot, partition_id);

CREATE INDEX queues_namespace_task ON queen.queues USING btree (namespace, task);

CREATE INDEX retention_history_queue ON queen.retention_history USING btree (queue_id, id);

CREATE INDEX segments_commit_order ON queen.segments USING btree (queue_id, epoch, xid);

CREATE INDEX staged_segments_write ON queen.staged_segments USING btree (write_id);

CREATE INDEX trace_event_names_event ON queen.trace_event_names USING btree (event_id);

CREATE INDEX trace_events_message ON queen.trace_events USING btree (partition_id, "offset");

CREATE OR REPLACE VIEW queen.lag AS
 SELECT q.name AS queue,
    g.name AS group_name,
    count(*) FILTER (WHERE (b.messages > 0)) AS partitions_with_lag,
    (COALESCE(sum(b.messages), (0)::numeric))::bigint AS messages,
    COALESCE(max(b.seconds), (0)::double precision) AS seconds,
    (g.complete OR (NOT g.queue_wide)) AS complete
   FROM ((queen.queue_groups g
     JOIN queen.queues q ON ((q.id = g.queue_id)))
     LEFT JOIN queen.lag_by_partition b ON (((b.queue = q.name) AND (b.group_name = g.name))))
  GROUP BY q.name, g.id;

CREATE TRIGGER erase_queues AFTER DELETE ON queen.queues REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION queen.erase_queues();

CREATE TRIGGER push INSTEAD OF INSERT ON queen.messages FOR EACH ROW EXECUTE FUNCTION queen.push_from_view();

ALTER TABLE ONLY queen.archives
    ADD CONSTRAINT archives_queue_id_fkey FOREIGN KEY (queue_id) REFERENCES queen.queues(id) ON DELETE CASCADE;

ALTER TABLE ONLY queen.partitions
    ADD CONSTRAINT partitions_queue_id_fkey FOREIGN KEY (queue_id) REFERENCES queen.queues(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY queen.queue_groups
    ADD CONSTRAINT queue_groups_queue_id_fkey FOREIGN KEY (queue_id) REFERENCES queen.queues(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY queen.trace_event_names
    ADD CONSTRAINT trace_event_names_event_id_fkey FOREIGN KEY (event_id) REFERENCES queen.trace_events(id) ON DELETE CASCADE;
