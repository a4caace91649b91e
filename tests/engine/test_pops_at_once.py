"""Several pops of one caller, made at once: each has a lease of its own, and together they have the bytes of one."""

import asyncio

import pytest

from queenmq.errors import InvalidArgument
from queenmq.model import PopRequest
from tests.engine.shorthand import messages

pytestmark = pytest.mark.every_postgres


async def test_pops_that_are_made_at_once_have_leases_of_their_own(engine):
    for name in "abc":
        await engine.push(messages("orders", 1, 2, 3, partition=name))
    popped = await engine.pop(PopRequest(queue="orders", batch=2), count=5)
    assert [message.offset for message in popped.messages] == [0, 1] * 3
    assert len({lease.partition for lease in popped.leases}) == len({lease.id for lease in popped.leases}) == 3


async def test_pops_beside_pops_that_are_made_at_once_get_what_they_asked_for(engine):
    for number in range(6):
        await engine.push(messages("orders", 1, 2, 3, partition=str(number)))
    one, many = PopRequest(queue="orders", batch=3), PopRequest(queue="orders", batch=1)
    found = await asyncio.gather(engine.pop(one), engine.pop(many, count=4), engine.pop(one))
    assert [len(popped.messages) for popped in found] == [3, 4, 3]


@pytest.mark.parametrize("count", [0, 201])
async def test_so_many_pops_cannot_be_made_at_once(engine, count):
    with pytest.raises(InvalidArgument, match="between 1 and 200"):
        await engine.pop(PopRequest(queue="orders"), count=count)


async def test_pops_that_are_made_at_once_share_the_bytes(open_engine):
    narrow = await open_engine(pop_bytes_max=1_000)
    for partition in "abcd":
        await narrow.push(messages("q", *["x" * 198] * 4, partition=partition))
    popped = await narrow.pop(PopRequest(queue="q", batch=4), count=4)
    assert (popped.message_count, len(popped.leases), popped.more) == (4, 4, True)
