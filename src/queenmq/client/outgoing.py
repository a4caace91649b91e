"""A message to push, when the payload alone does not say everything."""

from collections.abc import Iterable
from itertools import repeat
from typing import Any
from uuid import UUID

from msgspec import Struct

from queenmq import model
from queenmq.client import payload
from queenmq.errors import InvalidTraceId
from queenmq.model import Headers


class Outgoing(Struct, frozen=True):
    """A payload with what goes with it.

    The same `transaction_id` pushed twice to a partition is stored once. `trace_id` links the messages of a pipeline
    across queues. `partition` wins over that of the queue it is pushed to. `headers` are strings that travel beside
    the payload.
    """

    payload: Any
    transaction_id: str | None = None
    trace_id: UUID | str | None = None
    partition: str | None = None
    headers: Headers | None = None


def messages(queue: str, partition: str, items: Iterable[Any]) -> list[model.Outgoing]:
    """Payloads, or Outgoings among them, as they travel; payloads alone are encoded without a step of ours for each."""
    given = list(items)
    if any(issubclass(kind, Outgoing) for kind in set(map(type, given))):
        return [message(queue, partition, item) for item in given]
    return list(map(model.Outgoing, repeat(queue), payload.encode_all(given), repeat(partition)))


def message(queue: str, partition: str, item: Any) -> model.Outgoing:
    """A payload, or an Outgoing, as it travels."""
    if not isinstance(item, Outgoing):
        return model.Outgoing(queue, payload.encode(item), partition)
    return model.Outgoing(
        queue,
        payload.encode(item.payload),
        partition if item.partition is None else item.partition,
        item.transaction_id,
        None if item.trace_id is None else trace_uuid(item.trace_id),
        headers=item.headers,
    )


def trace_uuid(trace_id: UUID | str) -> UUID:
    """A trace id that a caller gave."""
    if isinstance(trace_id, UUID):
        return trace_id
    try:
        return UUID(trace_id)
    except ValueError:
        raise InvalidTraceId(f"the trace id is not a UUID: {trace_id[:60]!r}") from None
