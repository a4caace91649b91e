"""A message to push, when the payload alone does not say everything."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID

from msgspec import Raw, Struct

from queenmq import model
from queenmq.client import payload
from queenmq.errors import InvalidPayload, InvalidTraceId
from queenmq.model import Headers
from queenmq.model.payloads import check_json

PAYLOAD_KEYS = {"data", "payload"}
ENVELOPE_KEYS = PAYLOAD_KEYS | {"transactionId", "traceId"}


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


def unwrapped(item: Any) -> Any:
    """The message in an envelope as the original client accepts it; what is no envelope is a payload.

    An envelope is a dictionary of `data` or `payload`, and perhaps `transactionId` and `traceId`. A dictionary with
    any other key is a payload, so that nothing of it is lost.
    """
    if not isinstance(item, dict) or not item.keys() <= ENVELOPE_KEYS or len(item.keys() & PAYLOAD_KEYS) != 1:
        return item
    [key] = item.keys() & PAYLOAD_KEYS
    return Outgoing(item[key], item.get("transactionId"), item.get("traceId"))


def messages(queue: str, partition: str, items: Iterable[Any]) -> Sequence[model.Outgoing]:
    """Payloads, or Outgoings among them, as they travel; payloads alone are encoded together."""
    given = list(items)
    kinds = set(map(type, given))
    if not given or any(issubclass(kind, Outgoing) for kind in kinds):
        return [message(queue, partition, item) for item in given]
    if Raw not in kinds and (array := payload.encode_plain(given)) is not None:
        return model.Payloads(queue, partition, array, len(given), known=True)
    with suppress(InvalidPayload):  # one of them is to blame: see below
        together = model.Payloads(queue, partition, payload.encode_array(given), len(given))
        # Texts that nobody has read are one value each if the array has them as they are.
        if Raw not in kinds or (len(kinds) == 1 and list(map(len, given)) == list(map(len, together.elements))):
            return together
    found = [message(queue, partition, item) for item in given]
    for place, each in enumerate(found):
        check_json(each.payload, place)
    return found


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
