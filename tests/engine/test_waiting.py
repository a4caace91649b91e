"""Long polls: what wakes them, how many, and how little it costs to wait."""

import asyncio
from time import monotonic

import pytest

from queenmq.errors import Busy
from queenmq.model import PopRequest
from tests.engine.shorthand import HOUR_MS, ack, lease_id, messages, parked, pop, push_silently, until, values

pytestmark = pytest.mark.every_postgres

ONLY_RINGS = {"poll_interval_min_ms": HOUR_MS, "poll_interval_max_ms": HOUR_MS}
OFTEN = {"poll_interval_min_ms": 10, "poll_interval_max_ms": 20}


def waits(engine, queue=None, seconds=50, **request):
    return asyncio.create_task(pop(engine, queue, wait_seconds=seconds, **request))


@pytest.fixture
def open_quiet(open_engine):
    """Open an engine where only rings wake; its bell is connected, which rings once for everybody."""

    async def open_one(**settings):
        engine = await open_engine(**(ONLY_RINGS | settings))
        with engine.waiting.poll(PopRequest(queue="nothing").kind) as kind:
            assert await engine.waiting.park(kind, monotonic() + 50)
        return engine

    return open_one


async def read_up(engine, *partitions):
    """Partitions of the queue "orders" of which everything is read."""
    await engine.push([each for name in partitions for each in messages("orders", 0, partition=name)])
    await ack(engine, await pop(engine, "orders", batch=100, max_partitions=100))


# -- a push


async def test_a_push_wakes_a_poll_in_the_same_engine(open_quiet):
    engine = await open_quiet()
    poll = waits(engine, "orders")
    await parked(engine)
    await engine.push(messages("orders", 1))
    assert values(await poll) == [1]


async def test_a_push_wakes_a_poll_in_another_engine(open_quiet):
    here, there = await open_quiet(), await open_quiet()
    poll = waits(there, "orders")
    await parked(there)
    await here.push(messages("orders", 1))
    assert values(await poll) == [1]


async def test_pushes_to_more_queues_than_a_notification_holds_wake_polls_elsewhere(open_quiet):
    here, there = await open_quiet(), await open_quiet()
    poll = waits(there, "q" * 200 + "49")
    await parked(there)
    await here.push([each for n in range(50) for each in messages("q" * 200 + str(n), n)])
    assert values(await poll) == [49]


async def test_a_push_that_creates_the_queue_wakes_a_poll_that_waited_for_it(open_quiet):
    engine = await open_quiet()
    polls = [waits(engine, "unknown"), waits(engine, "unknown", partition="ann", group="g")]
    await parked(engine, 2)
    await engine.push(messages("unknown", 1, partition="ann"))
    assert [values(await poll) for poll in polls] == [[1], [1]]


async def test_a_push_wakes_polls_of_the_queues_namespace_and_task(open_quiet):
    engine = await open_quiet()
    await engine.admin.configure_queue("orders", namespace="shop", task="bill")
    by_namespace, by_task = waits(engine, namespace="shop", group="a"), waits(engine, task="bill", group="b")
    elsewhere = waits(engine, namespace="bank", group="c")
    await parked(engine, 3)
    await engine.push(messages("orders", 1))
    assert values(await by_namespace) == values(await by_task) == [1]
    await parked(engine)
    assert not elsewhere.done()


async def test_one_message_wakes_one_poll_of_many(open_quiet):
    engine = await open_quiet()
    await engine.push(messages("orders", 0))
    await ack(engine, await pop(engine, "orders"))
    polls = [waits(engine, "orders") for _ in range(20)]
    await parked(engine, 20)
    before = engine.popper.batcher.requests
    await engine.push(messages("orders", 1))
    done, _ = await asyncio.wait(polls, return_when=asyncio.FIRST_COMPLETED)
    assert [values(await poll) for poll in done] == [[1]]
    assert engine.waiting.parked == 19
    assert engine.popper.batcher.requests == before + 1


async def test_a_push_to_three_partitions_wakes_three_polls(open_quiet):
    engine = await open_quiet()
    await read_up(engine, *"abc")
    polls = [waits(engine, "orders") for _ in range(10)]
    await parked(engine, 10)
    before = engine.popper.batcher.requests
    await engine.push([each for name in "abc" for each in messages("orders", name, partition=name)])
    await parked(engine, 7)
    await until(lambda: sum(poll.done() for poll in polls) == 3)
    assert sorted(values(poll.result())[0] for poll in polls if poll.done()) == ["a", "b", "c"]
    assert engine.popper.batcher.requests == before + 3


async def test_the_poll_that_has_waited_longest_is_served_first(open_quiet):
    engine = await open_quiet()
    await read_up(engine, *"012")
    polls = []
    for count in range(1, 4):
        polls.append(waits(engine, "orders"))
        await parked(engine, count)
    for number, poll in enumerate(polls):
        await engine.push(messages("orders", number, partition=str(number)))
        assert values(await poll) == [number]


# -- what else there is to wait for


async def test_an_ack_that_leaves_more_to_read_wakes_a_poll(open_quiet):
    engine = await open_quiet()
    await engine.push(messages("orders", 1, 2))
    first = await pop(engine, "orders")
    poll = waits(engine, "orders")
    await parked(engine)
    await ack(engine, first)
    assert values(await poll) == [2]


async def test_a_lease_that_is_given_back_wakes_a_poll_here_and_elsewhere(open_quiet):
    here, there = await open_quiet(), await open_quiet()
    await here.push(messages("orders", 1))
    for engine in (here, there):
        popped = await pop(here, "orders")
        poll = waits(engine, "orders")
        await parked(engine)
        assert await here.release(lease_id(popped))
        again = await poll
        assert values(again) == [1]
        assert await here.release(lease_id(again))


async def test_the_end_of_a_lease_wakes_a_poll_by_itself(open_engine):
    engine = await open_engine(poll_interval_min_ms=10, poll_interval_max_ms=HOUR_MS)
    await engine.push(messages("orders", 1))
    await pop(engine, "orders", lease_seconds=0.2)
    again = await pop(engine, "orders", wait_seconds=50)
    assert values(again) == [1]
    assert again.messages[0].retry_count == 1


async def test_the_end_of_a_retry_pause_wakes_a_poll_by_itself(open_engine):
    engine = await open_engine(poll_interval_min_ms=10, poll_interval_max_ms=HOUR_MS)
    await engine.admin.configure_queue("orders", retry_delay_ms=200)
    await engine.push(messages("orders", 1))
    await ack(engine, await pop(engine, "orders"), "failed")
    assert values(await pop(engine, "orders")) == []
    assert values(await pop(engine, "orders", wait_seconds=50)) == [1]


async def test_the_end_of_a_delay_wakes_a_poll_by_itself(open_engine):
    engine = await open_engine(poll_interval_min_ms=10, poll_interval_max_ms=HOUR_MS)
    await engine.admin.configure_queue("orders", delayed_processing_seconds=1)
    await engine.push(messages("orders", 1))
    assert values(await pop(engine, "orders")) == []
    assert values(await pop(engine, "orders", wait_seconds=50)) == [1]


async def test_a_seek_and_a_redrive_wake_polls(open_quiet):
    engine = await open_quiet()
    await engine.push(messages("orders", 1))
    await ack(engine, await pop(engine, "orders"))
    poll = waits(engine, "orders")
    await parked(engine)
    await engine.admin.seek_group("__QUEUE_MODE__", "orders", to="beginning")
    popped = await poll
    assert values(popped) == [1]
    await ack(engine, popped, "dlq")
    poll = waits(engine, "orders")
    await parked(engine)
    assert await engine.admin.redrive_dead_letters() == 1
    assert values(await poll) == [1]


# -- nothing comes, or nobody may wait


async def test_a_poll_whose_time_is_over_answers_with_nothing(engine):
    popped = await pop(engine, "orders", wait_seconds=0.05)
    assert (list(popped.leases), list(popped.messages)) == ([], [])
    assert engine.waiting.parked == 0


async def test_one_poll_too_many_is_refused_and_the_others_stay(open_quiet):
    engine = await open_quiet(waiters_max=2)
    polls = [waits(engine, "orders"), waits(engine, "bills")]
    await parked(engine, 2)
    with pytest.raises(Busy):
        await pop(engine, "orders", wait_seconds=50)
    await engine.push(messages("orders", 1) + messages("bills", 2))
    assert [values(await poll) for poll in polls] == [[1], [2]]


async def test_a_poll_that_goes_away_leaves_nothing_behind(open_quiet):
    engine = await open_quiet()
    going, staying = waits(engine, "orders"), waits(engine, "orders")
    await parked(engine, 2)
    going.cancel()
    await parked(engine)
    await engine.push(messages("orders", 1))
    assert values(await staying) == [1]
    assert engine.waiting.parked == 0


# -- no wake-up is lost


async def test_a_ring_between_the_look_and_the_wait_is_heard(open_quiet):
    waiting = (await open_quiet()).waiting
    with waiting.poll(PopRequest(queue="orders").kind) as kind:
        rung = kind.rung
        waiting.ring("orders")
        kind.in_vain(rung)
        assert await waiting.park(kind, monotonic() + 50)


async def test_a_ring_for_a_poll_that_goes_away_wakes_the_next(open_quiet):
    engine = await open_quiet()
    waiting = engine.waiting
    with waiting.poll(PopRequest(queue="orders").kind) as kind:
        going, staying = [asyncio.create_task(waiting.park(kind, monotonic() + 50)) for _ in range(2)]
        await parked(engine, 2)
        waiting.ring("orders")
        going.cancel()
        assert await staying
        assert going.cancelled()


class Turn:
    """One turn of the event loop for everybody else."""

    def __await__(self):
        yield


async def test_a_ring_in_the_last_moment_of_a_poll_still_makes_it_look(open_quiet):
    engine = await open_quiet()
    waiting = engine.waiting
    deadline = monotonic() + 0.1
    with waiting.poll(PopRequest(queue="orders").kind) as kind:
        poll = asyncio.create_task(waiting.park(kind, deadline))
        await parked(engine)
        waiting.ring("orders")
        await Turn()
        while monotonic() < deadline + 0.01:
            pass  # nobody else gets a turn: the poll is being woken, and its time is over
        assert await poll


async def test_a_ring_for_a_poll_that_goes_away_while_it_looks_wakes_the_next(open_quiet, connection):
    engine = await open_quiet()
    await read_up(engine, "a")
    going, staying = waits(engine, "orders"), waits(engine, "orders")
    await parked(engine, 2)
    async with connection.transaction():  # pops wait, and with them those who look
        await connection.execute("lock table queen.queue_groups")
        engine.waiting.ring("orders")
        await parked(engine)
        going.cancel()
        await parked(engine, 0)  # the other one looks
    await engine.push(messages("orders", 1))
    assert values(await staying) == [1]


async def test_a_consumer_that_comes_back_leaves_those_alone_who_wait(open_quiet):
    engine = await open_quiet()
    await engine.push(messages("orders", *range(20)))
    popped = await pop(engine, "orders")
    polls = [waits(engine, "orders") for _ in range(3)]
    await parked(engine, 3)
    looks = engine.popper.batcher.requests
    for _ in range(19):  # each ack leaves something to read
        await ack(engine, popped)
        popped = await pop(engine, "orders", wait_seconds=50)
    assert engine.popper.batcher.requests - looks == 19
    await ack(engine, popped)
    await engine.push(messages("orders", 20))
    await asyncio.wait(polls, return_when=asyncio.FIRST_COMPLETED)
    assert sorted(poll.done() for poll in polls) == [False, False, True]


async def test_many_pushes_and_polls_at_once_deliver_everything_without_the_fallback(open_quiet):
    here, there = await open_quiet(), await open_quiet()
    polls = [waits(engine, "orders") for engine in (here, there) for _ in range(20)]
    await asyncio.gather(*(here.push(messages("orders", n, partition=str(n))) for n in range(20)))
    await asyncio.gather(*(there.push(messages("orders", n, partition=str(n))) for n in range(20, 40)))
    assert sorted(values(each)[0] for each in await asyncio.gather(*polls)) == list(range(40))


# -- the fallback poll


async def partition_of(engine, queue):
    """The id of a partition that is empty for plain queue mode."""
    [pushed] = await engine.push(messages(queue, 0))
    await ack(engine, await pop(engine, queue))
    return pushed.partition_id


@pytest.mark.parametrize("asks_first", [True, False])
async def test_a_push_that_nobody_announced_is_found_all_the_same(open_engine, connection, asks_first):
    engine = await open_engine(pending_check=asks_first, **OFTEN)
    partition_id = await partition_of(engine, "orders")
    polls = [waits(engine, "orders"), waits(engine, "orders", partition="Default", group="g")]
    assert values(await polls[1]) == [0]
    await parked(engine)
    await push_silently(connection, partition_id, 1)
    assert values(await polls[0]) == [1]
    assert bool(engine.waiting.checks_hit) == asks_first


async def test_an_unannounced_push_is_found_by_a_poll_of_the_namespace(open_engine, connection):
    engine = await open_engine(**OFTEN)
    await engine.admin.configure_queue("orders", namespace="shop")
    partition_id = await partition_of(engine, "orders")
    await ack(engine, await pop(engine, namespace="shop"))
    poll = waits(engine, namespace="shop")
    await parked(engine)
    await push_silently(connection, partition_id, 1)
    assert values(await poll) == [1]


async def test_two_hundred_polls_that_wait_for_nothing_hardly_call_the_database(open_quiet):
    engine = await open_quiet(**OFTEN)
    polls = [waits(engine, "orders" if n % 2 else "bills") for n in range(200)]
    await parked(engine, 200)
    calls, missed, pops = engine.database.calls, engine.waiting.checks_missed, engine.popper.batcher.requests
    await until(lambda: engine.waiting.checks_missed >= missed + 4)  # two kinds, asked for twice
    assert engine.database.calls - calls <= 4
    assert engine.popper.batcher.requests == pops
    for poll in polls:
        poll.cancel()
    await parked(engine, 0)
