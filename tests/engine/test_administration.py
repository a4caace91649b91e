"""Administration: configure, look, move, delete, through the engine; what each does in full is told in tests/sql."""

import json
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from queenmq.errors import (
    GroupNotFound,
    InvalidArgument,
    InvalidName,
    InvalidSetting,
    InvalidTimestamp,
    PartitionNotFound,
    QueueNotFound,
)
from queenmq.model import QUEUE_MODE
from tests.engine.shorthand import ack, messages, pop, values

pytestmark = pytest.mark.every_postgres

NAIVE = datetime(2025, 1, 1)  # noqa: DTZ001


def payloads(stored):
    return [json.loads(each.payload) for each in stored]


# -- queues


async def test_a_queue_is_configured_step_by_step(engine):
    made = await engine.admin.configure_queue("orders", namespace="shop", lease_seconds=7)
    assert (made.name, made.namespace, made.task, made.lease_seconds) == ("orders", "shop", "", 7)
    changed = await engine.admin.configure_queue("orders", task="bill", retry_limit=9)
    assert (changed.namespace, changed.task, changed.lease_seconds, changed.retry_limit) == ("shop", "bill", 7, 9)
    assert await engine.admin.queue("orders") == changed


async def test_a_setting_that_makes_no_sense_is_refused(engine):
    for options in ({"lease_seconds": -1}, {"lease_secs": 1}, {"lease_seconds": "long"}):
        with pytest.raises(InvalidSetting):
            await engine.admin.configure_queue("orders", **options)
    with pytest.raises(InvalidName):
        await engine.admin.configure_queue("")


async def test_the_depth_of_a_queue_and_how_many_more_it_takes(engine):
    await engine.admin.configure_queue("orders", max_queue_size=5)
    await engine.push(messages("orders", 1, 2, 3))
    depth = await engine.admin.depth("orders")
    assert (depth.depth, depth.limit, depth.remaining) == (3, 5, 2)
    await ack(engine, await pop(engine, "orders", batch=2))
    assert (await engine.admin.depth("orders")).remaining == 4
    await engine.admin.configure_queue("orders", max_queue_size=0)
    assert (await engine.admin.depth("orders")).remaining is None


async def test_a_depth_beyond_the_limit_leaves_no_room(engine):
    await engine.push(messages("orders", 1, 2, 3))
    await engine.admin.configure_queue("orders", max_queue_size=2)
    depth = await engine.admin.depth("orders")
    assert (depth.depth, depth.remaining) == (3, 0)


async def test_a_queue_that_is_deleted_is_gone_and_may_come_back(engine):
    await engine.push(messages("orders", 1))
    assert [await engine.admin.delete_queue("orders") for _ in range(2)] == [True, False]
    with pytest.raises(QueueNotFound):
        await engine.admin.queue("orders")
    [pushed] = await engine.push(messages("orders", 2))
    assert pushed.offset == 0
    assert values(await pop(engine, "orders", batch=10)) == [2]


async def test_a_partition_that_is_deleted_is_gone_and_may_come_back(engine):
    await engine.push(messages("orders", 1, partition="ann") + messages("orders", 2, partition="bob"))
    assert [await engine.admin.delete_partition("orders", "ann") for _ in range(2)] == [True, False]
    await engine.push(messages("orders", 3, partition="ann"))
    assert values(await pop(engine, "orders", partition="ann", batch=10)) == [3]
    assert values(await pop(engine, "orders", partition="bob", batch=10)) == [2]


async def test_a_queue_that_is_cleared_goes_on_empty(engine):
    await engine.push(messages("orders", 1, 2) + messages("orders", 3, partition="ann"))
    assert await engine.admin.clear_queue("orders") == 3
    assert values(await pop(engine, "orders")) == []
    [pushed] = await engine.push(messages("orders", 4))
    assert pushed.offset == 2
    assert values(await pop(engine, "orders")) == [4]


# -- groups


async def test_a_group_that_is_deleted_starts_again(engine):
    for queue in ("orders", "bills"):
        await engine.push(messages(queue, queue))
        await pop(engine, queue, group="g", auto_ack=True)
    assert await engine.admin.delete_group("g", "orders") == 1
    assert values(await pop(engine, "orders", group="g")) == ["orders"]
    assert values(await pop(engine, "bills", group="g")) == []
    assert await engine.admin.delete_group("g") == 2
    assert await engine.admin.delete_group("g") == 0


async def test_a_group_deleted_without_its_subscription_starts_from_the_moment_it_was_given(engine):
    await engine.push(messages("orders", 1))
    await pop(engine, "orders", group="g", auto_ack=True)
    [later] = await engine.push(messages("orders", 2))
    await engine.admin.set_subscription("g", "orders", later.created_at)
    assert await engine.admin.delete_group("g", "orders", with_subscription=False) == 1
    assert values(await pop(engine, "orders", group="g", batch=10)) == [2]


async def test_a_group_moves_to_wherever_it_is_told(engine):
    await engine.push(messages("orders", 0))
    pushed = [(await engine.push(messages("orders", n)))[0] for n in range(1, 4)]
    await engine.push(messages("orders", "a", partition="ann"))
    await pop(engine, "orders", group="g", batch=10, max_partitions=10, auto_ack=True)
    for target, read in [
        ({"to": "beginning"}, [0, 1, 2, 3]),
        ({"to": "end"}, []),
        ({"offset": 2}, [2, 3]),
        ({"timestamp": pushed[2].created_at}, [3]),
    ]:
        assert await engine.admin.seek_group("g", "orders", partition="Default", **target) == 1
        assert values(await pop(engine, "orders", partition="Default", group="g", batch=10, auto_ack=True)) == read
    assert await engine.admin.seek_group("g", "orders", to="beginning") == 2


# -- messages


async def test_messages_are_listed_newest_first_page_by_page_and_by_status(engine):
    await engine.push(messages("orders", 1, 2, 3))
    await ack(engine, await pop(engine, "orders"))
    await pop(engine, "orders")
    page = await engine.admin.list_messages("orders", limit=2)
    assert [(each.offset, each.status) for each in page] == [(2, "pending"), (1, "leased")]
    rest = await engine.admin.list_messages("orders", partition="Default", cursor=page[-1].cursor)
    assert [(each.offset, each.status) for each in rest] == [(0, "completed")]
    assert payloads(await engine.admin.list_messages("orders", status="leased")) == [2]
    assert {each.status for each in await engine.admin.list_messages("orders", group="other")} == {"pending"}


async def test_a_message_is_found_by_its_id(engine):
    [pushed] = await engine.push(messages("orders", {"n": 1}, ids=["o-1"], producer="shop"))
    found = await engine.admin.get_message(pushed.id)
    assert (found.message_id, found.transaction_id, found.producer) == (pushed.id, "o-1", "shop")
    assert json.loads(found.payload) == {"n": 1}
    assert await engine.admin.get_message(uuid4()) is None


async def test_messages_are_read_by_offset_without_a_lease(engine):
    await engine.push(messages("orders", *range(5)))
    assert payloads(await engine.admin.read_messages("orders", "Default", 1, 3)) == [1, 2, 3]
    assert payloads(await engine.admin.read_messages("orders", "Default", 5)) == []
    assert len(values(await pop(engine, "orders", batch=10))) == 5


async def test_a_trace_goes_through_all_queues(engine):
    trace_id = uuid4()
    for queue in ("orders", "bills"):
        await engine.push(messages(queue, queue, trace_id=trace_id) + messages(queue, "another"))
    steps = await engine.admin.trace(trace_id)
    assert [(each.step, each.queue) for each in steps] == [(1, "orders"), (2, "bills")]
    assert payloads(steps) == ["orders", "bills"]
    assert steps[0].seconds_since_previous is None
    assert steps[1].seconds_since_previous == steps[1].seconds_since_start > 0
    assert await engine.admin.trace(uuid4()) == []


# -- dead letters


@pytest.fixture
async def letters(engine):
    """Three dead letters of two groups, the newest first."""
    for group, queue, count in [("a", "orders", 2), ("b", "bills", 1)]:
        await engine.push(messages(queue, *range(count)))
        await ack(engine, await pop(engine, queue, group=group, batch=10), "dlq", "broken")
    return await engine.admin.list_dead_letters()


async def test_dead_letters_are_listed_newest_first_and_by_what_they_are(engine, letters):
    assert [(each.queue, each.group_name, each.error) for each in letters] == [
        ("bills", "b", "broken"),
        ("orders", "a", "broken"),
        ("orders", "a", "broken"),
    ]
    newest = letters[0].failed_at
    assert await engine.admin.list_dead_letters("orders") == letters[1:]
    assert await engine.admin.list_dead_letters(group="b", partition="Default") == letters[:1]
    assert await engine.admin.list_dead_letters(partition="ann") == []
    assert await engine.admin.list_dead_letters(since=newest) == letters[:1]
    assert await engine.admin.list_dead_letters(until=newest) == letters[1:]
    assert await engine.admin.list_dead_letters(before_id=letters[0].id, limit=1) == letters[1:2]


async def test_dead_letters_are_delivered_again_to_the_group_that_gave_them_up(engine, letters):
    assert await engine.admin.redrive_dead_letters([letters[1].id]) == 1
    assert values(await pop(engine, "orders", group="a", batch=10)) == json.loads(f"[{letters[1].payload.decode()}]")
    assert await engine.admin.redrive_dead_letters(queue="bills", group="b") == 1
    assert values(await pop(engine, "bills", group="b")) == [0]
    assert await engine.admin.list_dead_letters() == letters[2:]


async def test_dead_letters_are_purged_by_what_they_are_and_never_all_by_mistake(engine, letters):
    with pytest.raises(InvalidArgument):
        await engine.admin.purge_dead_letters()
    assert await engine.admin.purge_dead_letters(older_than=letters[0].failed_at - timedelta(days=1)) == 0
    assert await engine.admin.purge_dead_letters([letters[0].id]) == 1
    assert await engine.admin.purge_dead_letters(queue="orders", group="b") == 0
    assert await engine.admin.purge_dead_letters(group="a") == 2
    assert await engine.admin.list_dead_letters() == []


# -- the books


async def test_the_ledger_says_what_became_of_everything(engine):
    await engine.push(messages("orders", *range(5)) + messages("bills", 1))
    await ack(engine, await pop(engine, "orders", batch=2))
    await ack(engine, await pop(engine, "orders"), "dlq")
    await pop(engine, "orders")
    [line] = await engine.admin.ledger("orders")
    assert (line.group_name, line.pushed, line.completed, line.dead_lettered) == (QUEUE_MODE, 5, 2, 1)
    assert (line.leased, line.pending, line.balanced) == (1, 1, True)
    await pop(engine, "bills")
    assert [each.queue for each in await engine.admin.ledger()] == ["bills", "orders"]


async def test_damage_is_found_and_the_ends_of_partitions_are_repaired(engine, connection):
    await engine.push(messages("orders", 1, 2))
    assert await engine.admin.check_consistency() == []
    assert await engine.admin.resync_partition_lookup() == 0
    await connection.execute("update queen.partition_lookup set next_offset = 1")
    [finding] = await engine.admin.check_consistency()
    assert (finding.check, finding.queue, finding.partition) == ("stale lookup", "orders", "Default")
    assert await engine.admin.resync_partition_lookup("orders") == 1
    assert await engine.admin.check_consistency() == []


# -- names that nobody knows, moments that nobody can place


async def test_a_queue_that_nobody_knows_is_an_error(engine):
    admin = engine.admin
    for call in [
        admin.queue("unknown"),
        admin.depth("unknown"),
        admin.clear_queue("unknown"),
        admin.delete_group("g", "unknown"),
        admin.seek_group("g", "unknown", to="end"),
        admin.list_messages("unknown"),
        admin.read_messages("unknown", "Default"),
        admin.list_dead_letters("unknown"),
        admin.redrive_dead_letters(queue="unknown"),
        admin.purge_dead_letters(queue="unknown"),
        admin.resync_partition_lookup("unknown"),
    ]:
        with pytest.raises(QueueNotFound):
            await call


async def test_a_partition_or_a_group_that_nobody_knows_is_an_error(engine):
    await engine.push(messages("orders", 1))
    await pop(engine, "orders", group="g", auto_ack=True)
    for call in [
        engine.admin.list_messages("orders", partition="unknown"),
        engine.admin.read_messages("orders", "unknown"),
        engine.admin.seek_group("g", "orders", partition="unknown", to="end"),
    ]:
        with pytest.raises(PartitionNotFound):
            await call
    for call in [
        engine.admin.seek_group("unknown", "orders", to="end"),
        engine.admin.set_subscription("unknown", "orders", datetime(2025, 1, 1, tzinfo=UTC)),
    ]:
        with pytest.raises(GroupNotFound):
            await call


async def test_a_moment_without_a_time_zone_is_refused(engine):
    await engine.push(messages("orders", 1))
    await pop(engine, "orders", group="g", auto_ack=True)
    for call in [
        engine.admin.set_subscription("g", "orders", NAIVE),
        engine.admin.seek_group("g", "orders", timestamp=NAIVE),
        engine.admin.list_dead_letters(since=NAIVE),
        engine.admin.list_dead_letters(until=NAIVE),
        engine.admin.purge_dead_letters(older_than=NAIVE),
    ]:
        with pytest.raises(InvalidTimestamp):
            await call


@pytest.mark.parametrize("target", [{}, {"offset": 1, "to": "end"}, {"to": "middle"}, {"offset": -1}])
async def test_a_seek_needs_one_target_that_exists(engine, target):
    await engine.push(messages("orders", 1))
    await pop(engine, "orders", group="g", auto_ack=True)
    with pytest.raises(InvalidArgument):
        await engine.admin.seek_group("g", "orders", **target)
