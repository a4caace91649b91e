"""Queues, groups, dead letters, messages, traces and the installation: the same over both transports."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from queenmq import Outgoing, __version__
from queenmq.errors import (
    GroupNotFound,
    InvalidArgument,
    InvalidName,
    InvalidSetting,
    InvalidTimestamp,
    InvalidTraceId,
    MessageNotFound,
    NotPending,
    QueueNotFound,
)


async def dead_letter(queen, queue, payload="poison", group="billing"):
    """Push a message and have a group give it up."""
    await queen.queue(queue).push(payload, transaction_id=f"id-{payload}")
    [message] = await queen.queue(queue).group(group).pop()
    await queen.ack(message, "dlq", "no good")
    return message


# -- queues


async def test_a_queue_is_configured_and_described(queen, queue):
    settings = await queen.admin.configure(queue, namespace="shop", task="mail", lease_seconds=7, retry_limit=2)
    assert (settings.lease_seconds, settings.retry_limit) == (7, 2)
    changed = await queen.admin.configure(queue, retry_limit=9, dead_letter_enabled=False)
    assert (changed.lease_seconds, changed.retry_limit, changed.dead_letter_enabled) == (7, 9, False)
    await queen.queue(queue).push_many([1, 2, 3])
    await queen.queue(queue).pop()
    described = await queen.admin.describe(queue)
    assert (described.name, described.namespace, described.task) == (queue, "shop", "mail")
    assert described.settings == changed
    found = described.messages
    assert (found.stored, found.pending, found.processing, found.completed) == (3, 2, 1, 0)
    assert described.partitions == 1


async def test_a_queue_and_a_group_on_it_are_paused_and_resumed(queen, queue):
    await queen.queue(queue).push(1)
    [first] = await queen.queue(queue).group("billing").pop()
    await queen.ack(first)
    await queen.queue(queue).push(2)
    assert await queen.admin.pause(queue, group="billing") is True
    assert await queen.admin.pause(queue, group="billing") is False
    assert await queen.queue(queue).group("billing").pop() == []
    assert [each.paused for each in await queen.groups.list() if each.queue == queue] == [True]
    assert (await queen.admin.describe(queue)).paused is False
    assert await queen.admin.pause(queue) is True
    assert (await queen.admin.describe(queue)).paused is True
    assert await queen.admin.resume(queue, group="billing") is True
    assert await queen.queue(queue).group("billing").pop() == []
    assert await queen.admin.resume(queue) is True
    [second] = await queen.queue(queue).group("billing").wait().pop()
    assert second.payload == 2
    with pytest.raises(QueueNotFound):
        await queen.admin.pause("nowhere")
    with pytest.raises(GroupNotFound):
        await queen.admin.pause(queue, group="nobody")


async def test_a_queue_is_created_with_what_was_said_of_it_before(queen, queue):
    settings = await queen.queue(queue).namespace("shop").task("mail").create(lease_seconds=7)
    assert settings.lease_seconds == 7
    changed = await queen.queue(queue).create(retry_limit=9)
    assert (changed.lease_seconds, changed.retry_limit) == (7, 9)
    described = await queen.admin.describe(queue)
    assert (described.namespace, described.task, described.settings) == ("shop", "mail", changed)
    assert [each.name for each in await queen.admin.queues(namespace="shop", task="mail", search=queue)] == [queue]


async def test_a_queue_without_a_name_is_any_of_a_namespace(queen, queue):
    await queen.queue(queue).namespace(f"ns-{queue}").create()
    await queen.queue(queue).push(1)
    [message] = await queen.queue().namespace(f"ns-{queue}").pop()
    assert (message.queue, message.payload) == (queue, 1)
    with pytest.raises(InvalidArgument, match=r"name a .*namespace or a task"):
        await queen.queue().pop()


async def test_a_setting_that_does_not_exist_is_refused(queen, queue):
    with pytest.raises(InvalidSetting):
        await queen.admin.configure(queue, lease_minutes=7)
    with pytest.raises(InvalidSetting):
        await queen.admin.configure(queue, lease_seconds=-1)
    with pytest.raises(QueueNotFound):
        await queen.admin.describe(queue)


async def test_queues_are_listed_by_what_they_have_in_common(queen, queue):
    for number in (1, 2, 3):
        await queen.admin.configure(f"{queue}-{number}", namespace=f"ns-{queue}", task=f"task-{queue}", priority=number)
    await queen.queue(f"{queue}-2").push("a")
    by_namespace = await queen.admin.queues(namespace=f"ns-{queue}")
    assert [each.name for each in by_namespace] == [f"{queue}-1", f"{queue}-2", f"{queue}-3"]
    assert [(each.priority, each.messages.pending) for each in by_namespace] == [(1, 0), (2, 1), (3, 0)]
    assert [each.name for each in await queen.admin.queues(task=f"task-{queue}", limit=1, skip=1)] == [f"{queue}-2"]
    assert [each.name for each in await queen.admin.queues(search=f"{queue}-3".upper())] == [f"{queue}-3"]
    [namespace] = [each for each in await queen.admin.namespaces() if each.name == f"ns-{queue}"]
    [task] = [each for each in await queen.admin.tasks() if each.name == f"task-{queue}"]
    assert (namespace.queues, task.queues, task.messages.pending) == (3, 3, 1)


async def test_a_queue_is_cleared_and_deleted(queen, queue):
    await queen.queue(queue).push_many([1, 2])
    assert await queen.admin.clear(queue) == 2
    assert await queen.queue(queue).pop() == []
    assert await queen.admin.delete(queue) is True
    assert await queen.admin.delete(queue) is False
    with pytest.raises(QueueNotFound):
        await queen.admin.clear(queue)


async def test_partitions_come_page_by_page(queen, queue):
    await queen.queue(queue).push_many([Outgoing(name, partition=name) for name in "abc"])
    first = await queen.admin.partitions(queue, limit=2)
    rest = await queen.admin.partitions(queue, limit=2, cursor=first.cursor)
    assert sorted(each.name for each in [*first.partitions, *rest.partitions]) == ["a", "b", "c"]
    assert (first.cursor is not None, rest.cursor) == (True, None)
    assert {(each.queue, each.pushed, each.messages.pending) for each in first.partitions} == {(queue, 1, 1)}


async def test_the_backlog_says_where_the_work_is(queen, queue):
    await queen.queue(queue).partition("light").push(1)
    [done] = await queen.queue(queue).group("billing").auto_ack().pop()
    await queen.queue(queue).partition("full").push_many([1, 2, 3])
    backlog = await queen.admin.backlog(queue, group="billing")
    assert (done.payload, backlog.pending, backlog.partitions_pending) == (1, 3, 1)
    assert [(each.partition, each.pending) for each in backlog.partitions] == [("full", 3)]


# -- groups


async def test_a_group_has_a_lag_and_can_be_moved(queen, queue):
    await queen.queue(queue).partition("p").push_many([1, 2, 3])
    group = f"group-{queue}"
    messages = await queen.queue(queue).group(group).batch(3).pop()
    await queen.ack_many(messages[:2])
    [place] = await queen.groups.lag(group)
    assert (place.queue, place.partition, place.lag_messages, place.completed) == (queue, "p", 1, 2)
    assert place.lease_id == messages[0].lease_id
    assert await queen.groups.seek(group, queue, to="beginning") == 1
    assert [each.payload for each in await queen.queue(queue).group(group).batch(9).pop()] == [1, 2, 3]
    assert await queen.groups.seek(group, queue, partition="p", offset=2) == 1
    assert [each.payload for each in await queen.queue(queue).group(group).batch(9).pop()] == [3]
    assert await queen.groups.seek(group, queue, to="end") == 1
    assert await queen.queue(queue).group(group).pop() == []
    assert await queen.groups.seek(group, queue, timestamp=datetime.now(UTC) - timedelta(hours=1)) == 1
    assert [each.payload for each in await queen.queue(queue).group(group).pop()] == [1]


async def test_groups_are_listed_and_forgotten(queen, queue):
    await queen.queue(queue).push(1)
    group = f"group-{queue}"
    await queen.queue(queue).group(group).subscription_mode("all").pop()
    [found] = [each for each in await queen.groups.list() if each.name == group]
    assert (found.queue, found.lag_messages, found.members, found.subscription_mode) == (queue, 1, 1, "all")
    assert [each for each in await queen.groups.list(lag_seconds_min=3600) if each.name == group] == []
    assert await queen.groups.set_subscription(group, datetime.now(UTC)) == 1
    assert await queen.groups.delete(group, queue) == 1
    assert await queen.groups.delete(group) == 0


async def test_a_move_says_where_to(queen, queue):
    for nowhere in ({}, {"to": "end", "offset": 3, "partition": "p"}, {"offset": 3}):
        with pytest.raises(InvalidArgument):
            await queen.groups.seek("group", queue, **nowhere)


# -- dead letters and messages


async def test_dead_letters_are_listed_and_delivered_again(queen, queue):
    given_up = await dead_letter(queen, queue)
    page = await queen.dead_letters.list(queue=queue, group="billing")
    [letter] = page.dead_letters
    assert (page.total, letter.payload, letter.error, letter.group) == (1, "poison", "no good", "billing")
    assert (letter.message_id, letter.transaction_id, letter.partition_id) == (
        given_up.id,
        given_up.transaction_id,
        given_up.partition_id,
    )
    assert await queen.dead_letters.redrive(ids=[letter.id]) == 1
    [again] = await queen.queue(queue).group("billing").pop()
    assert again.id == given_up.id


async def test_dead_letters_are_purged_by_what_is_named(queen, queue):
    await dead_letter(queen, queue, "a")
    await dead_letter(queen, queue, "b")
    long_ago = datetime.now(UTC) - timedelta(days=1)
    assert await queen.dead_letters.purge(queue=queue, older_than=long_ago) == 0
    assert (await queen.dead_letters.list(queue=queue, since=long_ago, limit=1)).total == 2
    assert (await queen.dead_letters.list(queue=queue, until=long_ago)).total == 0
    [first] = (await queen.dead_letters.list(queue=queue, limit=1, skip=1)).dead_letters
    assert first.payload == "a"
    assert await queen.dead_letters.purge(ids=[first.id]) == 1
    assert await queen.dead_letters.redrive(queue=queue, group="billing", limit=5) == 1
    with pytest.raises(InvalidArgument):
        await queen.dead_letters.redrive()


async def test_an_empty_filter_does_not_widen_what_is_meant(queen, queue):
    await dead_letter(queen, queue)
    assert await queen.dead_letters.purge(ids=[], queue=queue) == 0
    assert await queen.dead_letters.redrive(ids=[], queue=queue) == 0
    for change in (queen.dead_letters.purge, queen.dead_letters.redrive, queen.dead_letters.list):
        for empty in ({"queue": queue, "group": ""}, {"queue": "", "group": "billing"}):
            with pytest.raises(InvalidName):
                await change(**empty)
    assert (await queen.dead_letters.list(queue=queue)).total == 1


async def test_stored_messages_are_looked_at(queen, queue):
    await queen.queue(queue).push_many([Outgoing(n, transaction_id=f"id-{n}") for n in range(3)])
    [leased] = await queen.queue(queue).pop()
    page = await queen.messages.list(queue=queue, limit=2)
    assert [(each.payload, each.status) for each in page.messages] == [(2, "pending"), (1, "pending")]
    rest = await queen.messages.list(queue=queue, limit=2, cursor=page.cursor)
    assert [(each.payload, each.status) for each in rest.messages] == [(0, "processing")]
    [processing] = (await queen.messages.list(queue=queue, status="processing")).messages
    assert processing.id == leased.id
    found = await queen.messages.get(leased.partition_id, "id-1")
    assert (found.payload, found.offset, found.queue) == (1, 1, queue)
    with pytest.raises(MessageNotFound):
        await queen.messages.get(leased.partition_id, "id-9")


async def test_one_message_is_given_up_retried_and_deleted(queen, queue):
    first = await queen.queue(queue).push("x", transaction_id="one/two")
    with pytest.raises(NotPending):
        await queen.messages.retry(first.partition_id, "one/two")
    [message] = await queen.queue(queue).group("billing").pop()
    await queen.ack(message, "retry")
    await queen.messages.give_up(first.partition_id, "one/two", group="billing", error="seen by a person")
    [letter] = (await queen.dead_letters.list(queue=queue)).dead_letters
    assert letter.error == "seen by a person"
    assert await queen.messages.retry(first.partition_id, "one/two", group="billing") == 1
    assert await queen.messages.delete(first.partition_id, "one/two") == 1
    assert await queen.queue(queue).group("billing").pop() == []


# -- traces


async def test_a_trace_is_followed_through_the_queues(queen, queue):
    trace_id = uuid4()
    await queen.queue(queue).push("order", trace_id=trace_id)
    await queen.queue(f"{queue}-mail").push("mail", trace_id=str(trace_id))
    steps = await queen.traces.follow(str(trace_id))
    assert [(each.step, each.queue, each.payload) for each in steps] == [
        (1, queue, "order"),
        (2, f"{queue}-mail", "mail"),
    ]
    assert steps[0].seconds_since_previous is None
    assert steps[1].seconds_since_start >= 0
    [message] = await queen.queue(queue).pop()
    assert message.trace_id == str(trace_id)
    with pytest.raises(InvalidTraceId):
        await queen.traces.follow("not-a-uuid")


async def test_notes_about_a_message_are_found_again(queen, queue):
    await queen.queue(queue).push("order")
    [message] = await queen.queue(queue).group("billing").pop()
    name = f"customer-{queue}"
    await queen.traces.record(message, {"step": "charged"}, event_type="billing", names=[name])
    await queen.traces.record(message, "shipped")
    charged, shipped = await queen.traces.of(message)
    assert (charged.payload, charged.event_type, charged.names) == ({"step": "charged"}, "billing", [name])
    assert (shipped.payload, shipped.event_type, shipped.group) == ("shipped", "info", "billing")
    assert [each.id for each in await queen.traces.named(name)] == [charged.id]
    [found] = [each for each in await queen.traces.names() if each.name == name]
    assert (found.events, found.messages) == (1, 1)


# -- the installation


async def test_the_installation_tells_of_itself(queen, queue):
    await queen.queue(queue).push(1)
    await queen.ping()
    assert await queen.admin.version() == __version__
    await queen.admin.refresh_statistics()
    overview = await queen.admin.overview()
    assert overview.queues >= 1
    assert overview.messages.stored >= 1
    [*_, last] = await queen.admin.traffic(queue=queue)
    assert last.pushed in (0, 1)  # the minute may have turned
    postgres = await queen.admin.postgres()
    assert postgres.database.connections > 0
    assert "segments" in {table.name for table in postgres.tables}


async def test_deliveries_pause_for_maintenance(queen, queue):
    await queen.queue(queue).push(1)
    assert await queen.admin.set_pop_maintenance(enabled=True) is True
    try:
        assert await queen.admin.pop_maintenance() is True
        assert await queen.queue(queue).pop() == []
    finally:
        assert await queen.admin.set_pop_maintenance(enabled=False) is False
    assert len(await queen.queue(queue).pop()) == 1


async def test_pushes_pause_for_maintenance(queen):
    assert (await queen.admin.set_maintenance(enabled=True)).enabled is True
    assert (await queen.admin.maintenance()).enabled is True
    assert (await queen.admin.set_maintenance(enabled=False)).enabled is False


# -- what is out of range


PAGES = {
    "queues": lambda queen, **page: queen.admin.queues(**page),
    "partitions": lambda queen, **page: queen.admin.partitions(**page),
    "backlog": lambda queen, **page: queen.admin.backlog("q", **page),
    "lag": lambda queen, **page: queen.groups.lag("g", **page),
    "messages": lambda queen, **page: queen.messages.list(**page),
    "dead letters": lambda queen, **page: queen.dead_letters.list(**page),
    "redrive": lambda queen, **page: queen.dead_letters.redrive(queue="q", **page),
    "notes": lambda queen, **page: queen.traces.named("n", **page),
    "names": lambda queen, **page: queen.traces.names(**page),
}


@pytest.mark.parametrize("ask", PAGES.values(), ids=PAGES)
@pytest.mark.parametrize("limit", [0, 10_001])
async def test_a_page_of_a_size_that_no_page_has_is_refused(queen, ask, limit):
    with pytest.raises(InvalidArgument, match="limit"):
        await ask(queen, limit=limit)


@pytest.mark.parametrize("name", ["queues", "dead letters", "notes", "names"])
async def test_less_than_nothing_cannot_be_skipped(queen, name):
    with pytest.raises(InvalidArgument):
        await PAGES[name](queen, skip=-1)


async def test_a_moment_needs_a_time_zone(queen, queue):
    somewhen = datetime(2025, 1, 31)  # noqa: DTZ001 (that is the point)
    for ask in (
        lambda: queen.admin.traffic(since=somewhen),
        lambda: queen.groups.seek("g", queue, timestamp=somewhen),
        lambda: queen.groups.set_subscription("g", somewhen),
        lambda: queen.dead_letters.list(since=somewhen),
        lambda: queen.dead_letters.purge(older_than=somewhen),
        lambda: queen.queue(queue).subscription_from(somewhen).pop(),
    ):
        with pytest.raises(InvalidTimestamp):
            await ask()
    with pytest.raises(InvalidTimestamp):
        queen.queue(queue).read(until=somewhen)
