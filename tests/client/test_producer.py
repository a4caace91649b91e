"""The buffered producer: the same over every transport and in both skins."""

import asyncio

import pytest

from queenmq import Queen
from queenmq.errors import Closed, InvalidArgument, InvalidHeaders, InvalidName, InvalidPayload, Refused

SECONDS_MAX = 60
FOREVER = 3_600


async def stored(queen, queue) -> list:
    """All payloads of a queue, in order inside each partition."""
    found = []
    while messages := await queen.queue(queue).batch(1_000).auto_ack().pop():
        found += [(message.partition, message.payload) for message in messages]
    return found


async def test_leaving_the_block_sends_everything_in_order(queen, queue):
    async with queen.producer(linger_seconds=FOREVER) as producer:
        for n in range(1_200):
            await producer.push(queue, n, partition=f"p{n % 3}")
    found = await stored(queen, queue)
    for partition in range(3):
        in_order = [payload for name, payload in found if name == f"p{partition}"]
        assert in_order == list(range(partition, 1_200, 3))


async def test_a_receipt_tells_when_a_message_is_stored(queen, queue):
    async with asyncio.timeout(SECONDS_MAX), queen.producer() as producer:
        receipt = await producer.push(queue, 1, transaction_id="order-1")
        pushed = await receipt.delivered()
        again = await producer.push(queue, 1, transaction_id="order-1")
        assert (pushed.status, pushed.transaction_id) == ("queued", "order-1")
        assert await again.delivered() == await again.delivered()
        assert ((await again.delivered()).status, (await again.delivered()).id) == ("duplicate", pushed.id)


async def test_reports_come_for_each_message_in_order(queen, queue):
    reports = []
    async with queen.producer(on_delivery=reports.append) as producer:
        for n in range(3):
            await producer.push(queue, n)
    assert [report.message.payload for report in reports] == [b"0", b"1", b"2"]
    assert [report.outcome.status for report in reports] == ["queued"] * 3
    assert len({report.outcome.id for report in reports}) == 3


async def test_a_report_that_is_not_taken_harms_nobody(queen, queue):
    def refuse(report):
        raise ValueError("no thanks")

    async with queen.producer(on_delivery=refuse) as producer:
        await producer.push(queue, 1)
        await producer.push(queue, 2)
    assert await stored(queen, queue) == [("Default", 1), ("Default", 2)]


async def test_a_message_that_is_refused_is_told_alone(queen, queue):
    async with queen.producer(linger_seconds=FOREVER) as producer:
        receipts = [await producer.push(queue, n, partition="x" * 300 if n == 3 else "p") for n in range(8)]
        await producer.flush()
        with pytest.raises(InvalidName):
            await receipts[3].delivered()
        assert [(await each.delivered()).status for each in receipts[:3] + receipts[4:]] == ["queued"] * 7
    assert [payload for _, payload in await stored(queen, queue)] == [0, 1, 2, 4, 5, 6, 7]


UNSENDABLE = (
    ({"headers": {"a": object()}}, InvalidHeaders),
    ({"headers": {"a": "\ud800"}}, InvalidHeaders),
    ({"transaction_id": "\ud800"}, InvalidArgument),
    ({"partition": "\ud800"}, Refused),
    ({"partition": 5}, Refused),
)


async def test_what_cannot_be_sent_is_told_alone(queen, queue):
    async with asyncio.timeout(SECONDS_MAX):
        async with queen.producer(linger_seconds=FOREVER) as producer:
            before = await producer.push(queue, "before")
            receipts = [(await producer.push(queue, 1, **odd), kind) for odd, kind in UNSENDABLE]
            after = await producer.push(queue, "after")
            await producer.flush()
            for receipt, kind in receipts:
                with pytest.raises(kind):
                    await receipt.delivered()
            assert [(await each.delivered()).status for each in (before, after)] == ["queued"] * 2
        assert [payload for _, payload in await stored(queen, queue)] == ["before", "after"]


async def test_what_has_no_json_is_refused_at_once(queen, queue):
    async with queen.producer() as producer:
        with pytest.raises(InvalidPayload):
            await producer.push(queue, object())


@pytest.mark.parametrize("limits", [{"batch_messages": 2}, {"batch_bytes": 100}])
async def test_enough_is_sent_at_once(queen, queue, limits):
    async with asyncio.timeout(SECONDS_MAX), queen.producer(linger_seconds=FOREVER, **limits) as producer:
        receipts = [await producer.push(queue, [n, "x" * 45]) for n in range(2)]
        assert [(await each.delivered()).status for each in receipts] == ["queued"] * 2


async def test_a_message_waits_for_company_only_so_long(queen, queue):
    async with asyncio.timeout(SECONDS_MAX), queen.producer(linger_seconds=0.01) as producer:
        receipt = await producer.push(queue, 1)
        assert (await receipt.delivered()).status == "queued"


@pytest.mark.parametrize("limits", [{"buffer_messages": 2}, {"buffer_bytes": 102}])
async def test_a_full_buffer_makes_pushes_wait(queen, queue, limits):
    await queen.admin.configure(queue, max_queue_size=1)
    async with asyncio.timeout(SECONDS_MAX):
        async with queen.producer(linger_seconds=FOREVER, **limits) as producer:
            for n in range(3):  # one in the queue, two in the buffer
                await producer.push(queue, [n, "x" * 45])
            last = asyncio.create_task(producer.push(queue, [3, "x" * 45]))
            done, _ = await asyncio.wait([last], timeout=0.1)
            assert not done
            seen = []
            while len(seen) < 3:
                seen += await queen.queue(queue).auto_ack().wait(5).pop()
            await last
    assert [message.payload[0] for message in seen] == [0, 1, 2]
    assert [payload[0] for _, payload in await stored(queen, queue)] == [3]


async def test_a_message_larger_than_the_buffer_gets_it_for_itself(queen, queue):
    async with asyncio.timeout(SECONDS_MAX), queen.producer(buffer_bytes=100) as producer:
        for n in range(3):
            await producer.push(queue, [n, "x" * 200])
    assert [payload[0] for _, payload in await stored(queen, queue)] == [0, 1, 2]


async def test_a_full_queue_makes_messages_wait_and_loses_none(queen, queue):
    await queen.admin.configure(queue, max_queue_size=5)
    seen = []
    async with asyncio.timeout(SECONDS_MAX):
        async with queen.producer() as producer:
            for n in range(12):
                await producer.push(queue, n)
            other = await producer.push(f"{queue}-other", "is not held up")
            assert (await other.delivered()).status == "queued"
            while len(seen) < 7:  # so that the other five have room
                seen += [each.payload for each in await queen.queue(queue).batch(2).auto_ack().wait(5).pop()]
        seen += [payload for _, payload in await stored(queen, queue)]
    assert seen == list(range(12))


async def test_a_producer_is_used_in_its_block(queen, queue):
    producer = queen.producer()
    with pytest.raises(InvalidArgument, match=r"(?s)in a block, .*producer\.start\(\), and .*producer\.close\(\)"):
        await producer.push(queue, 1)
    async with producer:
        pass
    with pytest.raises(Closed):
        await producer.push(queue, 1)


async def test_a_producer_without_a_block_is_started_and_closed_once(queen, queue):
    producer = queen.producer(linger_seconds=FOREVER)
    await producer.close()  # it was not started: there is nothing to close
    assert await producer.start() == producer
    receipt = await producer.push(queue, 1)
    await producer.start()  # keeps what was taken
    await producer.push(queue, 2)
    await asyncio.gather(producer.close(), producer.close())
    assert await stored(queen, queue) == [("Default", 1), ("Default", 2)]
    assert (await receipt.delivered()).status == "queued"
    await producer.close()
    await producer.start()
    with pytest.raises(Closed):
        await producer.push(queue, 3)


async def test_a_producer_that_was_closed_may_be_closed_after_its_client(address, queue):
    with Queen(address) as queen:
        producer = queen.producer().start()
        producer.push(queue, 1)
        producer.close()
    producer.close()
    assert repr(producer) == "<Producer closed, 0 messages to send>"


@pytest.mark.parametrize("limit", ["buffer_messages", "buffer_bytes", "batch_messages", "batch_bytes"])
async def test_limits_have_limits(queen, limit):
    with pytest.raises(InvalidArgument, match=limit):
        async with queen.producer(**{limit: 0}):
            pass
