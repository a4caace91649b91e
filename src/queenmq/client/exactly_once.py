"""Exactly once with the application's own data: its SQL, its pushes and the ack are one transaction.

The queue and the data are in the same database. A message counts as done if and only if the transaction of its handler
commits; the lease is the fence: a handler that has lost it cannot commit, because `queen.ack` refuses.
"""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any
from uuid import UUID

import msgspec

from queenmq import model
from queenmq.client.answers import Delivery
from queenmq.client.connections import execute_in, execute_in_blocking, transaction, transaction_blocking

PUSH = """select queen.push(
    cast({} as text), cast(cast({} as text) as jsonb), cast({} as text), cast({} as text),
    cast(cast({} as text) as uuid), cast(cast({} as text) as jsonb))"""
ACK = """select queen.ack(cast(id as uuid), cast(cast({} as text) as uuid))
    from json_array_elements_text(cast(cast({} as text) as json)) as id"""

Call = Callable[[Any], Any]


def push_arguments(message: model.Outgoing) -> list[str | None]:
    """What PUSH takes."""
    return [
        message.queue,
        message.payload.decode(),
        message.partition,
        message.transaction_id,
        _text(message.trace_id),
        None if message.headers is None else msgspec.json.encode(message.headers).decode(),
    ]


async def handle(pool: Any, call: Call, deliveries: Sequence[Delivery], acks: Callable[[], object]) -> None:
    """Call a handler with a connection, acknowledge on it, commit. Raises LeaseGone, and then nothing has happened."""
    async with transaction(pool) as connection:
        await call(connection)
        acks()
        await execute_in(connection, ACK, _ack_arguments(deliveries))


def handle_blocking(pool: Any, call: Call, deliveries: Sequence[Delivery], acks: Callable[[], object]) -> None:
    """The same in a thread."""
    with transaction_blocking(pool) as connection:
        call(connection)
        acks()
        execute_in_blocking(connection, ACK, _ack_arguments(deliveries))


def _ack_arguments(deliveries: Sequence[Delivery]) -> list[str | None]:
    """Partitions in the order in which every call locks them."""
    ordered = sorted(deliveries, key=attrgetter("partition_id", "offset"))
    return [deliveries[0].lease_id, msgspec.json.encode([each.id for each in ordered]).decode()]


def _text(value: UUID | None) -> str | None:
    return None if value is None else str(value)
