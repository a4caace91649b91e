"""Acks and pushes together: what is told when several acks are refused."""

import pytest

from queenmq.errors import LeaseGone, NotInLease

pytestmark = pytest.mark.every_postgres


async def test_of_several_acks_that_are_refused_the_first_is_told(queue):
    await queue.push("orders", "ann", 1)
    await queue.push("orders", "bob", 2)
    [lapsed] = await queue.pop("g", "orders", "ann", lease_seconds=5)
    queue.clock.advance(10)
    [held] = await queue.pop("g", "orders", "bob")
    gone, beyond = (lapsed, [0], "completed"), (held, [0, 100], "completed")
    with pytest.raises(LeaseGone):
        await queue.transact([gone, beyond])
    with pytest.raises(NotInLease):
        await queue.transact([beyond, gone])
