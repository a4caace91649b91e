# Generated from client/source.py by `make sync-client`: edit that file, not this one.
"""Where messages are popped from, and how: a fluent description that never changes, only grows copies."""

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self, overload

from msgspec.structs import asdict, replace

from queenmq.client.calls import Pop
from queenmq.client.consumer import GRACE_SECONDS, Consumer
from queenmq.client.signatures import Handler, HandlerWithin, OnAck, Pool
from queenmq.client.stop import Stop
from queenmq.client.sync.message import Message
from queenmq.model import PopRequest, SubscriptionMode

if TYPE_CHECKING:
    from queenmq.client.sync.queen import Queen

ANYTHING = PopRequest()  # which says nothing yet
WAIT_SECONDS = 30.0


class Source:
    """Any queue of a namespace and/or a task: `queen.namespace("shop").task("mail").group("bot").batch(10).pop()`."""

    def __init__(self, queen: "Queen", request: PopRequest, wait_seconds: float = 0.0) -> None:
        self._queen = queen
        self._request = request
        self._wait_seconds = wait_seconds

    def namespace(self, name: str) -> Self:
        """Of a named queue: what `create` gives it. Else: only queues of this namespace."""
        return self._with(namespace=name)

    def task(self, name: str) -> Self:
        """Of a named queue: what `create` gives it. Else: only queues of this task."""
        return self._with(task=name)

    def group(self, name: str) -> Self:
        """Read as this group; groups are independent of each other."""
        return self._with(group=name)

    def subscription_mode(self, mode: SubscriptionMode) -> Self:
        """Where a new group starts: `all` (`from_beginning`) that is stored, or only what is `new` (`new-only`)."""
        return self._with(subscription_mode=mode)

    def subscription_from(self, moment: datetime) -> Self:
        """Where a new group starts: at a moment, with a time zone."""
        return self._with(subscription_mode="timestamp", subscription_from=moment)

    def batch(self, messages: int) -> Self:
        """Take up to so many messages at once."""
        return self._with(batch=messages)

    def max_partitions(self, partitions: int) -> Self:
        """Take up to so many partitions at once, under one lease; of `consume`, in one list of a handler."""
        return self._with(max_partitions=partitions)

    def lease_seconds(self, seconds: int) -> Self:
        """Hold what is taken for so long, whatever the queue's setting is."""
        return self._with(lease_seconds=seconds)

    def auto_ack(self, enabled: bool = True) -> Self:  # noqa: FBT001, FBT002 (auto_ack(False) reads well)
        """Have the pop acknowledge what it takes: at most once instead of at least once."""
        return self._with(auto_ack=enabled)

    def wait(self, seconds: float = WAIT_SECONDS) -> Self:
        """Wait so long for messages when there are none."""
        return type(self)(self._queen, self._request, seconds)

    def pop(self) -> list[Message]:
        """Lease messages; an empty list when there are none, or none in time."""
        return [Message(self._queen, each) for each in self._queen.call(Pop(self._request, self._wait_seconds))]

    @overload
    def consume(
        self,
        handler: Handler[Message],
        *,
        concurrency: int = 1,
        connection: None = None,
        grace_seconds: float = GRACE_SECONDS,
        on_ack: OnAck[Message] | None = None,
        stop: Stop | None = None,
    ) -> None: ...
    @overload
    def consume(
        self,
        handler: HandlerWithin[Message],
        *,
        concurrency: int = 1,
        connection: Pool,
        grace_seconds: float = GRACE_SECONDS,
        on_ack: OnAck[Message] | None = None,
        stop: Stop | None = None,
    ) -> None: ...
    def consume(
        self,
        handler: Callable[..., object],
        *,
        concurrency: int = 1,
        connection: object | None = None,
        grace_seconds: float = GRACE_SECONDS,
        on_ack: OnAck[Message] | None = None,
        stop: Stop | None = None,
    ) -> None:
        """Call a function with what is pushed, and acknowledge it, until SIGTERM or SIGINT, or until `stop` is set.

        `connection`: a pool of yours. The function gets a connection, and what it does there commits with the ack.
        `on_ack`: called with each message, what was said of it, and the answer, once that has come.
        """
        consumer = Consumer(
            handler,
            self._request,
            Message,
            self._queen,
            concurrency=concurrency,
            connection=connection,
            grace_seconds=grace_seconds,
            on_ack=on_ack,
        )
        self._queen.run([consumer], stop=stop)

    def __repr__(self) -> str:
        said = {name: value for name, value in asdict(self._request).items() if value != getattr(ANYTHING, name)}
        said |= {"wait_seconds": self._wait_seconds} if self._wait_seconds else {}
        return f"<{type(self).__name__} {' '.join(f'{name}={value!r}' for name, value in said.items())}>"

    def _with(self, **changes: Any) -> Self:
        return type(self)(self._queen, replace(self._request, **changes), self._wait_seconds)
