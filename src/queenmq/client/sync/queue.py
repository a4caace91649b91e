# Generated from client/queue.py by `make sync-client`: edit that file, not this one.
"""One queue: push to it, pop from it."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Self, Unpack, overload
from uuid import UUID

from queenmq.api.queues import QueueOptions, QueueSettings
from queenmq.client.answers import Fetched, Pushed
from queenmq.client.calls import Fetch, Position, Push
from queenmq.client.outgoing import Outgoing, messages, unwrapped
from queenmq.client.sync.reading import BYTES_MAX, Reading
from queenmq.client.sync.source import Source
from queenmq.client.sync.tail import Tail
from queenmq.errors import InvalidArgument
from queenmq.model import DEFAULT_PARTITION, Headers


class Queue(Source):
    """A queue, or one partition of it: `queen.queue("orders").partition("customer-7").push({"id": 1})`.

    `namespace` and `task` are for `create`, which gives them to the queue; a queue with a name is popped by it.
    """

    @property
    def name(self) -> str:
        """The queue's name."""
        assert self._request.queue is not None, "a queue is made with its name"
        return self._request.queue

    def partition(self, name: str) -> Self:
        """Only this partition of the queue; without it, pushes go to "Default" and pops take from any."""
        return self._with(partition=name)

    def create(self, **options: Unpack[QueueOptions]) -> QueueSettings:
        """Create the queue, or change what is named of it, with the namespace and the task that were said before.

        `queen.queue("orders").namespace("shop").create(retry_limit=5)`. The first push to a partition makes that.
        """
        request = self._request
        return self._queen.admin.configure(self.name, namespace=request.namespace, task=request.task, **options)

    # -- push

    @overload
    def push(self, payload: list[Any], *, capacity: bool = False) -> Sequence[Pushed]: ...
    @overload
    def push(
        self,
        payload: Any,
        *,
        transaction_id: str | None = None,
        trace_id: UUID | str | None = None,
        headers: Headers | None = None,
        capacity: bool = False,
    ) -> Pushed: ...
    def push(
        self,
        payload: Any,
        *,
        transaction_id: str | None = None,
        trace_id: UUID | str | None = None,
        headers: Headers | None = None,
        capacity: bool = False,
    ) -> Pushed | Sequence[Pushed]:
        """Store a message; when it returns, the message is safe. Raises QueueFull and what else refuses it.

        A list is several messages, all of them stored or none, and its items may be envelopes, `{"data": …}`; each
        message gets its own answer. An array that is one payload is `Outgoing([…])`. With `capacity`, an answer also
        says how many messages wait in the queue and how many more it takes.
        """
        about = {"transaction_id": transaction_id, "trace_id": trace_id, "headers": headers}
        said = {name: value for name, value in about.items() if value is not None}
        if said and isinstance(payload, list | Outgoing):
            raise InvalidArgument(f"{' and '.join(said)} would be that of one payload: make an Outgoing of it")
        if isinstance(payload, list):
            return self.push_many([unwrapped(item) for item in payload], capacity=capacity)
        one = payload if isinstance(payload, Outgoing) else Outgoing(payload, transaction_id, trace_id, headers=headers)
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
