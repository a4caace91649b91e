"""One call of every function that can lock something, with arguments drawn at random from a few names and rows.

The names are few, so calls meet all the time. Rows (leases, partitions, dead letters) are drawn by the statement
itself, in random order: no caller sorts its arguments for us.
"""

import random

QUEUES = ["alpha", "beta", "gamma", "delta"]
PARTITIONS = ["ann", "bob", "cid", "dan", "eve"]
GROUPS = ["workers", "others", "auditors"]
NAMESPACES = ["shop", "office"]

# Other functions call these; they rely on rows that their caller has locked.
PARTS = {
    "append_staged", "attach_groups", "bury", "claim_partitions", "drop_duplicates", "few_versions", "forget_depth",
    "give_up", "hand_out", "hand_out_plain", "hold_back", "judge_failures", "pass_over", "pop_targets",
    "push_from_view", "record_subscription", "remove_partitions", "require_encryption", "reserve_depth",
    "restart_places", "place_inbox", "set_aside_inbox", "set_paused", "settle", "skip_deleted", "wake_groups",
}  # fmt: skip

LEASED = "queen.partition_consumers where lease_id is not null order by random() limit {n}"
LEASES = f"(select * from {LEASED}) as c"
LEASE_IDS = f"array(select lease_id from {LEASED})"
PARTITION_IDS = "array(select partition_id from queen.partition_lookup order by random() limit {n})"
LETTERS = "array(select id from queen.dead_letters order by random() limit {n})"
MESSAGE = """(select partition_id, coalesce(transaction_ids::json ->> 0,
              queen.message_id(created_at, partition_id, first_offset)::text) as name
         from queen.segments where partition_id > 0 order by random() limit 1) as m"""
ACKS = """array_agg(c.partition_id), array_agg(c.group_id), array_agg(c.lease_id),
       array_agg(c.n::int), array_agg(c.lease_from), array_agg(c.lease_to)"""
FAILURES = "array_agg(c.n::int), array_agg(c.lease_from), array_agg({status}), array_agg('no'::text)"
NUMBERED = f"(select row_number() over () as n, c.* from {LEASES}) as c"
PUSH = """p.ids, array_fill(1, array[cardinality(p.ids)]), array_fill('[1]'::bytea, array[cardinality(p.ids)])"""


class Dice:
    """The draws of one session; a seed makes them again."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def fill(self, statement: str) -> str:
        """Put random values where a statement has names in braces, each name once or several times alike."""
        draw = self.random
        return statement.format(
            queue=f"'{draw.choice(QUEUES)}'",
            queue_or_none=draw.choice([f"'{draw.choice(QUEUES)}'", "null"]),
            queues=self._several(QUEUES),
            partition=f"'{draw.choice(PARTITIONS)}'",
            partitions=self._several(PARTITIONS),
            group=f"'{draw.choice(GROUPS)}'",
            groups=self._several(GROUPS),
            namespace=f"'{draw.choice(NAMESPACES)}'",
            mode=draw.choice(["'all'", "'new'", "null"]),
            status=f"'{draw.choice(['failed', 'retry', 'dlq'])}'::text",
            to=f"'{draw.choice(['beginning', 'end'])}'",
            flag=draw.choice(["true", "false"]),
            limit=draw.choice([0, 0, 40]),
            window=draw.choice([0, 0, 1]),
            delay=draw.choice([0, 0, 1]),
            n=draw.randint(1, 5),
            seconds=draw.choice([0.01, 0.5, 5]),
        )

    def _several(self, names: list[str]) -> str:
        drawn = [self.random.choice(names) for _ in range(3)]
        return "array[" + ", ".join(f"'{name}'" for name in drawn) + "]::text[]"


def pop(queues: str, partitions: str, namespaces: str) -> str:
    """Three pops in one call."""
    nulls = "array[null, null, null]"
    return f"""
        select count(*) from queen.pop_batch({queues}, {partitions}, {namespaces}, {nulls}::text[], {{groups}},
            '{{{{3,3,3}}}}', '{{{{1,2,3}}}}', array[{{seconds}}, null, null]::float8[], array[{{flag}}, false, false],
            array[gen_random_uuid(), gen_random_uuid(), gen_random_uuid()], array[{{mode}}, 'all', 'all'],
            {nulls}::timestamptz[])"""


NULLS = "array[null, null, null]::text[]"
CALLS: dict[str, list[str]] = {
    # Traffic.
    "ensure_partitions": ["select count(*) from queen.ensure_partitions({queues}, {partitions})"],
    "push": ["select queen.push({queue}, '1', {partition}, p_transaction_id => 't{n}')"],
    "push_segments": [f"select queen.push_segments({PUSH}) from (select {PARTITION_IDS} as ids) as p"] * 4,
    "push_spooled": [
        f"""select queen.push_spooled(gen_random_uuid(), 0, 1, {PUSH}, null, null, null, null, null)
              from (select {PARTITION_IDS} as ids) as p"""
    ],
    "sequence_inbox": ["select * from queen.sequence_inbox({n})", "select * from queen.sequence_inbox()"],
    "pop": ["select count(*) from queen.pop({queue}, {group}, 2, p_lease_seconds => {seconds}, p_auto_ack => {flag})"],
    "pop_batch": [pop("{queues}", NULLS, NULLS), pop("{queues}", "{partitions}", NULLS),
                  pop(NULLS, NULLS, "array[{namespace}, 'shop', 'office']")],
    "ack": [f"""select queen.ack(queen.message_id(s.created_at, s.partition_id, s.first_offset), c.lease_id, {{status}})
                  from {LEASES}
                  join queen.segments s on s.partition_id = c.partition_id and s.first_offset = c.lease_from
                 limit 1"""],
    "ack_batch": [
        f"""select count(a.*) from (select {ACKS} from {NUMBERED} having count(*) > 0) as l (a, b, c, d, e, f)
             cross join lateral queen.ack_batch(l.a, l.b, l.c, l.d, l.e, l.f) as a"""
    ] * 2,
    "ack_once": [
        f"""select count(a.*)
              from (select array_agg(c.partition_id), array_agg(c.group_id), array_agg(c.lease_id), {FAILURES}
                      from {NUMBERED} having count(*) > 0) as l (a, b, c, d, e, f, g)
             cross join lateral queen.ack_once(gen_random_uuid(), l.a, l.b, l.c, '{{{{}}}}', '{{{{}}}}', '{{{{}}}}',
                                               l.d, l.e, l.f, l.g) as a"""
    ],
    "renew_lease": [f"select count(*) from queen.renew_lease({LEASE_IDS})"] * 2,
    "release_lease": [f"select queen.release_lease({LEASE_IDS})"],
    "transact": [
        f"""select queen.transact(l.a, l.b, l.c, l.d, l.e, l.f, '{{{{}}}}', '{{{{}}}}', '{{{{}}}}', '{{{{}}}}',
                                  {LEASE_IDS}, {PUSH}, null, null, null, null, null)
              from (select {ACKS} from {NUMBERED} having count(*) > 0) as l (a, b, c, d, e, f),
                   (select {PARTITION_IDS} as ids) as p""",
        f"""select queen.transact('{{{{}}}}', '{{{{}}}}', '{{{{}}}}', '{{{{}}}}', '{{{{}}}}', '{{{{}}}}', '{{{{}}}}',
                                  '{{{{}}}}', '{{{{}}}}', '{{{{}}}}', {LEASE_IDS}, {PUSH}, null, null, null, null, null)
              from (select {PARTITION_IDS} as ids) as p""",
    ],
    # Queues and groups.
    "configure_queue": [
        """select queen.configure_queue({queue}, {namespace}, null, jsonb_build_object(
                      'max_queue_size', {limit}, 'window_buffer_seconds', {window}, 'retry_limit', 1,
                      'delayed_processing_seconds', {delay}, 'retry_delay_ms', 0, 'retention_seconds', 1))"""
    ],
    "pause": ["select queen.pause({queue})", "select queen.pause({queue}, {group})"],
    "resume": ["select queen.resume({queue})", "select queen.resume({queue}, {group})"] * 2,
    "subscribe": ["select queen.subscribe({group}, {queue_or_none}, null, {namespace}, null, {mode}, null)"],
    "set_subscription": ["select queen.set_subscription({group}, {queue_or_none}, clock_timestamp())"],
    "extend_group": ["select queen.extend_group(id, {n}) from queen.queue_groups order by random() limit 1"],
    "extend_groups": [
        "select queen.extend_groups(array(select id from queen.queue_groups order by random()), null, {n})"
    ],
    "seek_group": [
        "select queen.seek_group({group}, {queue}, p_to => {to})",
        "select queen.seek_group({group}, {queue}, {partition}, p_to => {to})",
    ],
    "delete_group": ["select queen.delete_group({group}, {queue_or_none}, {flag})"],
    "advance_group": [
        "select queen.advance_group({group}, {queue}, s.epoch, pg_current_snapshot(), {flag}) from queen.system_state s"
    ],
    "clear_queue": ["select queen.clear_queue({queue})"],
    "delete_partition": ["select queen.delete_partition({queue}, {partition})"],
    "delete_queue": ["select queen.delete_queue({queue})"],
    "erase_queues": ["delete from queen.queues where name = {queue}"],
    # Single messages and dead letters.
    "delete_message": [f"select queen.delete_message(m.partition_id, m.name) from {MESSAGE}"],
    "dead_letter_message": [f"select queen.dead_letter_message(m.partition_id, m.name, {{group}}) from {MESSAGE}"] * 3,
    "record_event": [f"select queen.record_event(m.partition_id, m.name, 'seen', '1') from {MESSAGE}"],
    "redrive_dead_letters": [
        f"select queen.redrive_dead_letters({LETTERS})",
        "select queen.redrive_dead_letters(p_queue => {queue})",
    ],
    "retry_message": [
        """select queen.retry_message(partition_id, transaction_id) from queen.dead_letters
            where transaction_id is not null order by random() limit 1"""
    ],
    "retain_dead_letters": ["select queen.retain_dead_letters(id) from queen.queues order by random() limit 1"],
    "purge_dead_letters": [
        f"select queen.purge_dead_letters({LETTERS})",
        "select queen.purge_dead_letters(p_group => {group})",
    ],
    # Spark.
    "commit_write": [
        """insert into queen.staged_segments (stage_id, n, write_id, partition_name)
           values (currval('queen.stage_ids'), 0, 'w{n}', {partition});
           insert into queen.segments (partition_id, first_offset, message_count, queue_id, epoch, created_at,
                                       transaction_ids, payloads)
           values (-currval('queen.stage_ids'), 0, 1, 0, 0, clock_timestamp(), '["s{n}"]', '[1]');
           select queen.commit_write('w{n}', currval('queen.stage_ids'), {queue},
                                     array[currval('queen.stage_ids')], 1, {flag})"""
    ],
    "discard_staged": ["select queen.discard_staged('{{}}', 'w{n}', clock_timestamp())"],
    # Upkeep.
    "retry_set_aside": ["select queen.retry_set_aside()"],
    "delete_set_aside": ["select queen.delete_set_aside(array(select id from queen.set_aside order by random()))"],
    "retain": [
        "select count(r.*) from queen.queues q cross join lateral queen.retain(q.id) as r where q.name = {queue}"
    ],
    "remove_idle_partitions": ["select queen.remove_idle_partitions(0.1)"],
    "resync_partition_lookup": ["select queen.resync_partition_lookup({queue_or_none})"],
    "repair_slots": ["select queen.repair_slots()"],
    "collect_stats": [
        "select queen.collect_stats()",
        "select queen.collect_stats(clock_timestamp() + interval '31 days')",
    ],
    "forget_calls": ["select queen.forget_calls(0, {n})"],
    "begin_call": ["select queen.begin_call(1000 + {n})"],
    "abandon_call": ["select queen.abandon_call(pg_backend_pid() + 10000)"],  # no two alike: the other would be ended
    "incarnation": ["select queen.incarnation()"],
    "check_epoch": ["select queen.check_epoch()"],
    "take_tick": ["select queen.take_tick()"],
    # What only reads; some are volatile because they read the clock or call what is.
    "check_consistency": ["select count(*) from queen.check_consistency()"],
    "safe_time": ["select queen.safe_time()"],
}  # fmt: skip

# Somebody who holds one row for a moment: calls that need it stop in the middle of what they lock.
HOLDS = [
    f"select from queen.{table} order by random() limit 1 for update"
    for table in ("partition_consumers", "partition_lookup", "depth_bounds", "queue_groups", "queues", "dead_letters",
                  "consumer_groups_metadata")
]  # fmt: skip
