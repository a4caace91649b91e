"""History changes while messages flow: whatever is answered afterwards is delivered once, in order."""

import asyncio
from collections import Counter
from time import monotonic

import pytest

from tests.faults.lost_history.changes import DATABASE, KINDS
from tests.faults.lost_history.places import PATIENCE_SECONDS, looking, patiently, places, push, stored, take
from tests.faults.lost_history.traffic import GROUP, QUEUE, Got, Traffic

PUSHES = 20


@pytest.mark.parametrize("spool", [False, True], ids=["refusing", "spooling"])
@pytest.mark.parametrize("kind", KINDS)
async def test_traffic_goes_on_when_history_has_changed(replication, tmp_path, kind, spool):
    change = kind(replication)
    await change.prepare()
    async with places(change.dsn, tmp_path, spool=spool) as at:
        async with Traffic(at) as traffic:
            await traffic.go_on(PUSHES)
            async with traffic.nothing_leased():
                await change.keep()
            await traffic.go_on(PUSHES)
            begins = monotonic()
            await change.happen()
            changed = monotonic()
            await traffic.go_on(PUSHES)
            await traffic.stop()
        async with looking(change.node.dsn(DATABASE)) as connection:
            await until_stored(connection, [each for each in traffic.sent if answered_for_good(each, begins, changed)])
            rest = await take(at["two"], QUEUE, GROUP)
            traffic.got += [Got(monotonic(), message) for message in rest]
            await check(traffic, await stored(connection), changed)
            await repair(traffic, at, connection)


def answered_for_good(sent, begins, changed):
    """The push was answered by the new history, or will be stored in it by a spool."""
    return sent.began > changed or (sent.status == "buffered" and sent.began > begins)


async def until_stored(connection, sent):
    """What was answered is stored; what lies in a spool comes soon."""
    wanted = {(each.partition, each.id) for each in sent}
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not wanted <= {(each.partition, each.id) for each in await stored(connection)}:
            pass


async def check(traffic, there, changed):
    places_of = {(each.partition, each.offset): each for each in there if each.queue == QUEUE}
    for got in traffic.got:
        if got.began > changed:
            assert got.message == places_of[got.message.partition, got.message.offset]
    after = {each.id for each in traffic.sent if each.began > changed}
    delivered = [got.message for got in traffic.got if got.message.id in after]
    assert Counter(message.id for message in delivered) == Counter(after)
    for partition in traffic.at:
        ids = [message.id for message in delivered if message.partition == partition]
        assert ids == sorted(ids)


async def repair(traffic, at, connection):
    """Producers repeat all that they ever pushed: everything is stored once."""
    for place, queen in at.items():
        ids = [each.id for each in traffic.sent if each.partition == place]
        await patiently(lambda queen=queen, place=place, ids=ids: push(queen, QUEUE, place, ids))
    await until_stored(connection, traffic.sent)
