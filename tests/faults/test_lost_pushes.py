"""A push whose answer is lost is stored exactly once, and its caller learns where."""

import asyncio
import json

import pytest

from queenmq.errors import DatabaseUnavailable
from queenmq.model import Outgoing
from tests.faults.log import lost_at_work, stored

pytestmark = pytest.mark.usefixtures("balanced")

PUSH = "queen.push_segments"


def messages(*values, partition="ann", ids=False):
    return [
        Outgoing("orders", json.dumps(value).encode(), partition, transaction_id=f"id-{value}" if ids else None)
        for value in values
    ]


def offsets(answers):
    return [answer.offset for answer in answers]


@pytest.fixture(params=[False, True], ids=["without ids", "with ids"])
def ids(request):
    return request.param


@pytest.fixture(params=["cut_before_request", "cut_during_request", "cut_after_request"])
def cut(request, proxy):
    return getattr(proxy, request.param)


async def test_a_lost_answer_is_found(engine, connection, cut, ids):
    await engine.push(messages(1, ids=ids))
    fault = cut(PUSH)
    answers = await engine.push(messages(2, 3, ids=ids))
    await fault.happened()
    assert offsets(answers) == [1, 2]
    assert not any(answer.duplicate for answer in answers)
    assert offsets(await engine.push(messages(4, ids=ids))) == [3]
    assert await stored(connection) == {("orders", "ann"): [1, 2, 3, 4]}


async def test_the_first_push_to_a_queue(engine, connection, cut, ids):
    cut(PUSH)
    assert offsets(await engine.push(messages(1, 2, ids=ids))) == [0, 1]
    assert await stored(connection) == {("orders", "ann"): [1, 2]}


async def test_many_partitions(engine, connection, cut, ids):
    names = [f"p{number}" for number in range(20)]
    await engine.push([each for name in names[::2] for each in messages(name, partition=name, ids=ids)])
    cut(PUSH)
    wanted = [each for name in names for each in messages(f"{name}-a", f"{name}-b", partition=name, ids=ids)]
    answers = await engine.push(wanted)
    log = await stored(connection)
    assert [log["orders", sent.partition][answer.offset] for sent, answer in zip(wanted, answers, strict=True)] == [
        json.loads(sent.payload) for sent in wanted
    ]
    assert sum(map(len, log.values())) == 50


async def test_several_segments_of_one_partition(engine, connection, cut, ids):
    cut(PUSH)
    answers = await engine.push(messages(*range(2_500), ids=ids))
    assert offsets(answers) == list(range(2_500))
    assert await stored(connection) == {("orders", "ann"): list(range(2_500))}


async def test_several_callers_in_one_call(engine, connection, cut, ids):
    await engine.push(messages(0, ids=ids))
    cut(PUSH)
    answers = await asyncio.gather(*[engine.push(messages(number, ids=ids)) for number in range(1, 11)])
    [log] = (await stored(connection)).values()
    assert [log[answer.offset] for [answer] in answers] == list(range(1, 11))
    assert sorted(log) == list(range(11))


async def test_a_call_that_is_still_running_cannot_commit_late(engine, proxy, connect, connection, ids):
    await engine.push(messages(1, ids=ids))
    other, watcher = await connect(), await connect()
    transaction = other.transaction()
    await transaction.start()
    await other.execute("select from queen.partition_lookup for update")
    fault = proxy.cut_during_request(PUSH)
    push = asyncio.create_task(engine.push(messages(2, ids=ids)))
    await lost_at_work(proxy, fault, watcher)
    await transaction.rollback()
    assert offsets(await push) == [1]
    assert await stored(connection) == {("orders", "ann"): [1, 2]}


async def test_others_have_pushed_before_the_question_is_asked(engine, proxy, connection, ids):
    await engine.push(messages(1, ids=ids))
    fault = proxy.hold_answer(PUSH)
    lost = asyncio.create_task(engine.push(messages(2, ids=ids)))
    await fault.happened()
    assert offsets(await engine.push(messages(3, ids=ids))) == [2]
    fault.cut()
    assert offsets(await lost) == [1]
    assert await stored(connection) == {("orders", "ann"): [1, 2, 3]}


async def test_a_push_nobody_could_ask_about_is_recognised_when_it_is_repeated(engine, proxy, connection):
    await engine.push(messages(1, ids=True))
    fault = proxy.hold_answer(PUSH)
    lost = asyncio.create_task(engine.push(messages(2, ids=True)))
    await fault.happened()
    await engine.push(messages(3, ids=True))
    proxy.refuse()
    proxy.cut()
    with pytest.raises(DatabaseUnavailable):
        await lost
    proxy.accept()
    [again] = await engine.push(messages(2, ids=True))
    assert (again.offset, again.duplicate) == (1, True)
    assert await stored(connection) == {("orders", "ann"): [1, 2, 3]}


async def test_a_way_that_always_breaks_is_an_error_in_the_end(engine, proxy, connection, ids):
    await engine.push(messages(1, ids=ids))
    proxy.cut_before_request(PUSH, times=None)
    with pytest.raises(DatabaseUnavailable):
        async with asyncio.timeout(20):
            await engine.push(messages(2, ids=ids))
    proxy.heal()
    await engine.push(messages(3, ids=ids))
    assert await stored(connection) == {("orders", "ann"): [1, 3]}


async def test_what_a_lost_answer_had_to_tell_is_told_again(engine, open_engine, proxy, database, connection):
    another = await open_engine(database)
    await engine.push(messages(1, ids=True))
    await another.push(messages(2, ids=True))
    proxy.cut_after_request(PUSH)
    await engine.push(messages(3, ids=True))
    [again] = await engine.push(messages(2, ids=True))
    assert (again.offset, again.duplicate) == (1, True)
    assert await stored(connection) == {("orders", "ann"): [1, 2, 3]}
