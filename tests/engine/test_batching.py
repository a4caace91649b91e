"""Natural batching: who travels together, who is answered alone, and that nobody is forgotten."""

import asyncio

import pytest

from queenmq.engine import batching
from queenmq.engine.batching import Batcher
from queenmq.errors import Closed, InvalidArgument, QueenError, TimedOut
from tests.engine.shorthand import until


class Runner:
    """Answers every item with itself, when the gate is open; notes which items travelled together."""

    def __init__(self):
        self.batches = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.flying = self.flying_max = 0

    async def __call__(self, items):
        self.batches.append(list(items))
        self.flying += 1
        self.flying_max = max(self.flying_max, self.flying)
        try:
            await self.gate.wait()
        finally:
            self.flying -= 1
        if any(isinstance(item, type) for item in items):
            raise next(item for item in items if isinstance(item, type))
        return items


@pytest.fixture
def run():
    return Runner()


async def test_a_request_on_an_idle_system_goes_out_alone_and_at_once(run):
    batcher = Batcher(run, calls_max=2)
    assert await batcher.submit(1) == 1
    assert run.batches == [[1]]


async def test_requests_that_come_together_travel_together(run):
    batcher = Batcher(run, calls_max=1)
    assert await asyncio.gather(*map(batcher.submit, range(10))) == list(range(10))
    assert run.batches == [list(range(10))]
    assert (batcher.requests, batcher.batches) == (10, 1)


async def test_many_requests_are_shared_between_the_calls_that_are_free(run):
    batcher = Batcher(run, calls_max=3, shared_from=6)
    run.gate.clear()
    first = [asyncio.create_task(batcher.submit(n)) for n in range(5)]
    await until(lambda: run.batches == [[0, 1, 2, 3, 4]])
    later = [asyncio.create_task(batcher.submit(n)) for n in range(5, 12)]
    await until(lambda: run.flying == 3)
    run.gate.set()
    assert await asyncio.gather(*first, *later) == list(range(12))
    assert run.batches[1:] == [[5, 6, 7, 8], [9, 10, 11]]


async def test_requests_gather_while_a_call_is_in_flight(run):
    batcher = Batcher(run, calls_max=1)
    run.gate.clear()
    first = asyncio.create_task(batcher.submit(0))
    await until(lambda: run.batches == [[0]])
    later = [asyncio.create_task(batcher.submit(n)) for n in (1, 2, 3)]
    await until(lambda: batcher.requests == 4)
    run.gate.set()
    await asyncio.gather(first, *later)
    assert run.batches == [[0], [1, 2, 3]]


async def test_a_few_requests_wait_for_the_call_in_flight_and_many_do_not(run, monkeypatch):
    monkeypatch.setattr(batching, "LATE_SECONDS", 3_600)
    batcher = Batcher(run, calls_max=2, weight=lambda item: item, further_from=10)
    run.gate.clear()
    first = asyncio.create_task(batcher.submit(1))
    await until(lambda: run.batches == [[1]])
    few = [asyncio.create_task(batcher.submit(n)) for n in (4, 5)]
    await until(lambda: batcher.requests == 3)
    many = asyncio.create_task(batcher.submit(2))
    await until(lambda: run.flying == 2)
    assert run.batches == [[1], [4, 5, 2]]
    last = asyncio.create_task(batcher.submit(3))
    run.gate.set()
    assert await asyncio.gather(first, *few, many, last) == [1, 4, 5, 2, 3]


async def test_one_more_is_made_ready_beside_the_calls_in_flight_where_enough_waits(run, monkeypatch):
    monkeypatch.setattr(batching, "LATE_SECONDS", 3_600)
    batcher = Batcher(run, calls_max=1, weight=lambda item: item, weight_max=10, further_from=10, ahead=1)
    run.gate.clear()
    asking = [asyncio.create_task(batcher.submit(n)) for n in (1, 10, 10, 3)]
    await until(lambda: run.flying == 2)
    assert run.batches == [[1], [10]]
    run.gate.set()
    assert await asyncio.gather(*asking) == [1, 10, 10, 3]
    assert run.flying_max == 2


async def test_who_is_done_leaves_a_few_requests_to_the_call_in_flight(monkeypatch):
    monkeypatch.setattr(batching, "LATE_SECONDS", 3_600)
    gates = {1: asyncio.Event(), 10: asyncio.Event(), 2: asyncio.Event()}
    travelled = []

    async def run(items):
        travelled.append(items)
        await gates[items[0]].wait()
        return items

    batcher = Batcher(run, calls_max=2, weight=lambda item: item, further_from=10)
    asking = {1: asyncio.create_task(batcher.submit(1))}
    await until(lambda: travelled == [[1]])
    asking[10] = asyncio.create_task(batcher.submit(10))
    await until(lambda: travelled == [[1], [10]])
    asking |= {n: asyncio.create_task(batcher.submit(n)) for n in (2, 3)}
    await until(lambda: batcher.requests == 4)
    gates[1].set()
    assert await asking[1] == 1
    assert travelled == [[1], [10]]  # two of them wait for the one that is in flight
    gates[10].set()
    await until(lambda: len(travelled) == 3)
    gates[2].set()
    assert await asyncio.gather(*asking.values()) == [1, 10, 2, 3]
    assert travelled == [[1], [10], [2, 3]]


async def test_nobody_waits_for_a_call_that_is_late(run, monkeypatch):
    monkeypatch.setattr(batching, "LATE_SECONDS", 0)
    batcher = Batcher(run, calls_max=2, further_from=10)
    run.gate.clear()
    first = asyncio.create_task(batcher.submit(1))
    await until(lambda: run.batches == [[1]])
    second = asyncio.create_task(batcher.submit(2))
    await until(lambda: run.flying == 2)
    run.gate.set()
    assert await asyncio.gather(first, second) == [1, 2]


@pytest.mark.parametrize("calls", [1, 2, 5])
async def test_no_more_calls_are_in_flight_than_allowed(run, calls):
    batcher = Batcher(run, calls_max=calls, weight_max=1)
    run.gate.clear()
    asking = [asyncio.create_task(batcher.submit(n)) for n in range(20)]
    await until(lambda: run.flying == calls)
    run.gate.set()
    assert await asyncio.gather(*asking) == list(range(20))
    assert run.flying_max == calls


async def test_a_batch_weighs_no_more_than_allowed_and_a_heavy_request_travels_alone(run):
    batcher = Batcher(run, calls_max=1, weight=lambda item: item, weight_max=10)
    await asyncio.gather(*map(batcher.submit, [4, 6, 1, 50, 2]))
    assert run.batches == [[4, 6], [1], [50], [2]]


@pytest.mark.parametrize("calls", [1, 2])
async def test_whoever_asks_again_as_soon_as_it_is_answered_is_served(run, calls):
    batcher = Batcher(run, calls_max=calls, weight_max=1)

    async def ask_often(number):
        return [await batcher.submit((number, n)) for n in range(50)]

    answers = await asyncio.gather(*map(ask_often, range(calls)))
    assert answers == [[(number, n) for n in range(50)] for number in range(calls)]


async def test_the_culprit_is_refused_and_its_neighbours_are_served(run):
    batcher = Batcher(run, calls_max=1)
    answers = await asyncio.gather(*map(batcher.submit, [1, 2, InvalidArgument, 3, 4]), return_exceptions=True)
    assert [answers[0], answers[1], *answers[3:]] == [1, 2, 3, 4]
    assert isinstance(answers[2], InvalidArgument)


async def test_an_answer_that_is_an_error_is_raised_to_its_requester_alone():
    refusal = InvalidArgument("no")

    async def run(items):
        return [refusal if item == 2 else item for item in items]

    batcher = Batcher(run, calls_max=1)
    assert await asyncio.gather(*map(batcher.submit, [1, 2, 3]), return_exceptions=True) == [1, refusal, 3]


async def test_when_the_database_is_away_the_whole_batch_hears_it_and_is_not_split(run):
    batcher = Batcher(run, calls_max=1)
    answers = await asyncio.gather(*map(batcher.submit, [1, TimedOut, 3]), return_exceptions=True)
    assert [type(answer) for answer in answers] == [TimedOut] * 3
    assert len(run.batches) == 1


async def test_a_mistake_of_ours_is_told_to_the_requesters_and_the_next_batch_is_served(run, caplog):
    batcher = Batcher(run, calls_max=1)
    with pytest.raises(QueenError, match="unforeseen"):
        await batcher.submit(ZeroDivisionError)
    assert await batcher.submit(1) == 1
    assert "unforeseen" in caplog.text


async def test_a_request_that_was_cancelled_before_it_left_takes_nothing(run):
    batcher = Batcher(run, calls_max=1)
    run.gate.clear()
    first = asyncio.create_task(batcher.submit(0))
    await until(lambda: run.batches)
    second, third = (asyncio.create_task(batcher.submit(n)) for n in (1, 2))
    await until(lambda: batcher.requests == 3)
    second.cancel()
    run.gate.set()
    await asyncio.gather(first, third)
    assert run.batches == [[0], [2]]


async def test_the_answer_of_a_request_that_was_cancelled_in_flight_is_not_lost(run):
    unclaimed = []
    batcher = Batcher(run, calls_max=1, unclaimed=unclaimed.append)
    run.gate.clear()
    going, staying = (asyncio.create_task(batcher.submit(n)) for n in (1, 2))
    await until(lambda: run.batches)
    going.cancel()
    run.gate.set()
    assert await staying == 2
    assert unclaimed == [1]


async def test_the_answer_of_a_request_that_was_cancelled_on_its_way_home_is_not_lost():
    unclaimed = []

    async def run(items):
        asyncio.get_running_loop().call_soon(asking.cancel)  # after the answer was given, before it is taken
        return items

    batcher = Batcher(run, calls_max=1, unclaimed=unclaimed.append)
    asking = asyncio.create_task(batcher.submit(1))
    await asyncio.wait([asking])
    assert asking.cancelled()
    assert unclaimed == [1]


async def test_a_batch_that_is_not_answered_in_full_leaves_nobody_waiting(run):
    async def run(items):
        return items[1:]

    batcher = Batcher(run, calls_max=1)
    answers = await asyncio.gather(*map(batcher.submit, [1, 2]), return_exceptions=True)
    assert [type(answer) for answer in answers] == [QueenError] * 2
    await batcher.close()


async def test_closing_finishes_what_was_accepted_and_refuses_the_rest(run):
    batcher = Batcher(run, calls_max=1, weight_max=1)
    run.gate.clear()
    accepted = [asyncio.create_task(batcher.submit(n)) for n in range(3)]
    await until(lambda: batcher.requests == 3)
    closing = asyncio.create_task(batcher.close())
    await until(lambda: batcher._closed)
    with pytest.raises(Closed):
        await batcher.submit(9)
    run.gate.set()
    await closing
    assert [task.result() for task in accepted] == [0, 1, 2]
