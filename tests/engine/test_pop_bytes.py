"""An answer of a pop has a number of bytes at most; what is left out of it is leased to nobody."""

import random

import pytest

from tests.engine.shorthand import ack, messages, pop, values

pytestmark = pytest.mark.every_postgres

LIMIT = 1_000


@pytest.fixture
async def narrow(open_engine):
    """An engine whose pops answer 1,000 bytes at most."""
    return await open_engine(pop_bytes_max=LIMIT)


def text(size, number=0):
    """A payload of so many bytes of JSON that begins with a number."""
    return f"{number}:".ljust(size - 2, "x")


def bytes_of(popped):
    return sum(len(message.payload) + len(message.given_headers or b"") for message in popped.messages)


@pytest.mark.parametrize("together", [True, False])
async def test_an_answer_ends_where_the_bytes_end(narrow, together):
    sizes = [300] * 10
    if together:
        await narrow.push(messages("q", *[text(size, n) for n, size in enumerate(sizes)]))
    else:
        for n, size in enumerate(sizes):
            await narrow.push(messages("q", text(size, n)))
    got = []
    while (popped := await pop(narrow, "q", batch=100)).runs:
        assert bytes_of(popped) <= LIMIT
        got.append(values(popped))
        assert popped.more is (sum(map(len, got)) < 10)
        await ack(narrow, popped)
    assert list(map(len, got)) == [3, 3, 3, 1]
    assert [value for each in got for value in each] == [text(300, n) for n in range(10)]


async def test_a_message_that_is_larger_is_answered_alone(narrow):
    await narrow.push(messages("q", text(300), text(5_000), text(300)))
    for size, more in ((300, True), (5_000, True), (300, False)):
        popped = await pop(narrow, "q", batch=100)
        assert (bytes_of(popped), popped.message_count, popped.more) == (size, 1, more)
        await ack(narrow, popped)


async def test_headers_count(narrow):
    headers = {"h": "x" * 390}  # 398 bytes of JSON
    await narrow.push(messages("q", *[text(100)] * 5, headers=headers))
    assert [len((await pop(narrow, "q", batch=100, auto_ack=True)).messages) for _ in range(3)] == [2, 2, 1]


async def test_what_is_cut_off_belongs_to_no_lease(narrow, connection):
    await narrow.push(messages("q", *[text(300, n) for n in range(10)]))
    popped = await pop(narrow, "q", batch=100)
    assert await connection.fetchval("select lease_to - lease_from from queen.partition_consumers") == 3
    assert await ack(narrow, popped, "failed")
    assert [message.retry_count for message in popped.messages] == [0, 0, 0]
    await connection.execute("update queen.partition_consumers set ready_at = now()")
    again = [message for _ in range(4) for message in (await pop(narrow, "q", batch=100, auto_ack=True)).messages]
    assert [message.retry_count for message in again] == [1] * 3 + [0] * 7


async def test_a_pop_with_automatic_ack_completes_what_it_answers_and_no_more(narrow, connection):
    await narrow.push(messages("q", *[text(300, n) for n in range(10)]))
    for completed in (3, 6, 9, 10):
        popped = await pop(narrow, "q", batch=100, auto_ack=True)
        assert popped.more is (completed < 10)
        assert await connection.fetchval("select completed from queen.partition_consumers") == completed


async def test_a_parked_poll_gets_what_was_cut_off(narrow):
    await narrow.push(messages("q", *[text(600, n) for n in range(2)]))
    first = await pop(narrow, "q", batch=100)
    await ack(narrow, first)
    second = await pop(narrow, "q", batch=100, wait_seconds=30)
    assert values(first) + values(second) == [text(600, n) for n in range(2)]


async def test_partitions_that_do_not_fit_are_not_leased(narrow, connection):
    for partition in "abcde":
        await narrow.push(messages("q", text(400, 1), text(50, 2), partition=partition))
    popped = await pop(narrow, "q", batch=100, max_partitions=10)
    assert (len(popped.leases), popped.message_count, popped.more) == (2, 4, True)
    leased = "select count(*) from queen.partition_consumers where lease_id is not null"
    assert await connection.fetchval(leased) == 2
    popped = await pop(narrow, "q", batch=100, max_partitions=10)
    assert (len(popped.leases), popped.message_count, popped.more) == (2, 4, True)
    popped = await pop(narrow, "q", batch=100, max_partitions=10)
    assert (len(popped.leases), popped.message_count, popped.more) == (1, 2, False)


async def test_a_large_message_of_a_further_partition_waits_for_the_next_pop(narrow):
    await narrow.push(messages("q", text(10), partition="a"))
    await narrow.push(messages("q", text(5_000), partition="b"))
    first = await pop(narrow, "q", batch=100, max_partitions=2)
    second = await pop(narrow, "q", batch=100, max_partitions=2)
    assert [bytes_of(first), bytes_of(second)] == [10, 5_000]


async def test_queues_of_a_namespace_share_the_bytes_of_one_pop(narrow):
    for queue in ("q1", "q2", "q3"):
        await narrow.admin.configure_queue(queue, namespace="n")
        await narrow.push(messages(queue, text(450)))
    popped = await pop(narrow, namespace="n", batch=100, max_partitions=10)
    assert (popped.message_count, popped.more) == (2, True)
    popped = await pop(narrow, namespace="n", batch=100, max_partitions=10)
    assert (popped.message_count, popped.more) == (1, False)


async def test_messages_that_are_done_already_are_not_answered_and_the_rest_stays_in_bounds(narrow):
    await narrow.push(messages("q", *[text(300, n) for n in range(6)]))
    wide = await pop(narrow, "q", batch=100)
    await narrow.ack([])
    await ack(narrow, wide)
    rest = await pop(narrow, "q", batch=100)
    await narrow.complete(rest.leases[0].partition_id, rest.leases[0].group_id, rest.leases[0].id, [4])
    await narrow.release(rest.leases[0].id)
    popped = await pop(narrow, "q", batch=100, auto_ack=True)
    assert values(popped) == [text(300, 3), text(300, 5)]
    assert bytes_of(popped) <= LIMIT


async def test_no_limit_is_noticed_where_messages_are_small(engine):
    await engine.push(messages("q", *range(1_000)))
    popped = await pop(engine, "q", batch=1_000)
    assert (popped.message_count, popped.more) == (1_000, False)


@pytest.mark.parametrize("seed", range(10))
async def test_however_messages_are_stored_all_are_answered_in_order_and_in_bounds(open_engine, connection, seed):
    chance = random.Random(seed)
    limit = chance.choice([1, 500, 3_000, 2_500_000])
    most = chance.choice([50, 2_000, 1_500_000 if limit > 10_000 else 2_000])
    engine = await open_engine(pop_bytes_max=limit)
    pushed = {partition: [] for partition in "abc"}
    for _ in range(chance.randint(3, 12)):
        partition = chance.choice("abc")
        count = chance.randint(1, 6)
        new = [text(chance.randint(20, most), len(pushed[partition]) + n) for n in range(count)]
        headers = chance.choice([None, {"h": "x" * chance.randint(1, 300)}])
        await engine.push(messages("q", *new, partition=partition, headers=headers))
        pushed[partition] += new
    got = {partition: [] for partition in "abc"}
    request = {"batch": chance.choice([2, 5, 1_000]), "max_partitions": chance.choice([1, 2, 5])}
    auto_ack = chance.random() < 0.5
    while (popped := await pop(engine, "q", auto_ack=auto_ack, **request)).runs:
        assert bytes_of(popped) <= limit or popped.message_count == 1
        for message in popped.messages:
            got[message.lease.partition].append(values_of(message))
        if not auto_ack:
            await ack(engine, popped)
    assert got == pushed
    for partition_id, bound in await connection.fetch("select partition_id, message_bytes from queen.partition_lookup"):
        assert await largest_excess(connection, partition_id, bound) <= 0


def values_of(message):
    return bytes(message.payload).decode()[1:-1]


async def largest_excess(connection, partition_id, message_bytes):
    """By how many bytes any messages in a row exceed the bound that their partition has for so many."""
    return await connection.fetchval(
        """
        with sizes as (
            select "offset", octet_length(payload::text) + coalesce(octet_length(headers::text), 0) as bytes
              from queen.messages where partition_id = $1)
        select max((select sum(s.bytes) from sizes s where s."offset" between a."offset" and b."offset")
                   - queen.bytes_bound(b."offset" - a."offset" + 1, $2))
          from sizes a join sizes b on b."offset" >= a."offset"
        """,
        partition_id,
        message_bytes,
    )


async def test_the_size_of_deleted_messages_is_forgotten(engine, connection):
    await engine.push(messages("q", text(5_000_000)))
    await engine.admin.clear_queue("q")
    await engine.push(messages("q", text(100)))
    assert await connection.fetchval("select message_bytes from queen.partition_lookup") < 200
