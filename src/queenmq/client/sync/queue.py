# Generated from client/queue.py by `make sync-client`: edit that file, not this one.
"""One queue: push to it, pop from it."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Self
from uuid import UUID

from queenmq.client.answers import Fetched, Pushed
from queenmq.client.calls import Fetch, Position, Push
from queenmq.client.outgoing import Outgoing, messages
from queenmq.client.sync.reading import BYTES_MAX, Reading
from queenmq.client.sync.source import Source
from queenmq.client.sync.tail import Tail
from queenmq.model import DEFAULT_PARTITION, Headers


class Queue(Source):
    """A queue, or one partition of it: `queen.queue("orders").partition("customer-7").push({"id": 1})`."""

    @property
    def name(self) -> str:
        """The queue's name."""
        assert self._request.queue is not None, "a queue is made with its name"
        return self._request.queue

    def partition(self, name: str) -> Self:
        """Only this partition of the queue; without it, pushes go to "Default" and pops take from any."""
        return self._with(partition=name)

    # -- push

    def push(
        self,
        payload: Any,
        *,
        transaction_id: str | None = None,
        trace_id: UUID | str | None = None,
        headers: Headers | None = None,
        capacity: bool = False,
    ) -> Pushed:
        """Store a message; when it returns, the message is safe. Raises QueueFull and what else refuses it.

        With `capacity`, the answer also says how many messages wait in the queue and how many more it takes.
        """
        one = Outgoing(payload, transaction_id, trace_id, headers=headers)
        [pushed] = self.push_many([one], capacity=capacity)
        return pushed

    def push_many(self, items: Iterable[Any], *, capacity: bool = False) -> Sequence[Pushed]:
        """Store messages, all or none: payloads, or `Outgoing` where one needs an id or a partition of its own."""
        name, partition = self.name, self._request.partition
        if partition is None:
            partition = DEFAULT_PARTITION
        return self._queen.call(Push(messages(name, partition, items), capacity))

    # -- read without a group

    def tail(self, *, start: Literal["beginning", "end"] = "end") -> Tail:
        """Messages as they are written, for ever; from the beginning, also those that are there."""
        return Tail(self._queen, self.name, self._request.partition, start)

    def read(self, *, since: datetime | None = None, until: datetime | None = None) -> Reading:
        """All that is stored, or was stored between two moments: to iterate over, or `to_arrow()`, `to_pandas()`."""
        return Reading(self._queen, self.name, self._request.partition, since=since, until=until)

    def fetch(self, offsets: Mapping[str, int], *, bytes_max: int = BYTES_MAX) -> dict[str, Fetched]:
        """Messages of partitions from an offset on, about so many bytes of them in all."""
        positions = [Position(self.name, partition, offset) for partition, offset in offsets.items()]
        fetched = self._queen.call(Fetch(positions, bytes_max))
        return dict(zip(offsets, fetched, strict=True))
