"""GET /dashboard/now: answers of the public API that every open dashboard asks for, made once for all of them.

Each part is the answer of one call as it is sent to every client. It is made again only if it is older than its
freshness, and only if a dashboard asks: a hundred open dashboards cost the database as much as one.
"""

import asyncio
from collections.abc import Mapping
from time import monotonic

from msgspec import Struct

from queenmq.broker.app import ROUTES
from queenmq.broker.broker import Broker
from queenmq.broker.http import Request, Response, encode, failure
from queenmq.errors import InvalidArgument, QueenError

OFTEN, SOMETIMES, RARELY = 2.0, 10.0, 30.0  # seconds for which a part is fresh


class Part(Struct, frozen=True):
    """A call of the public API, and for how many seconds its answer is fresh."""

    target: str
    seconds: float


PARTS = {
    "overview": Part("/api/v1/resources/overview", OFTEN),
    "groups": Part("/api/v1/consumer-groups/lagging?minLagSeconds=1", OFTEN),
    "unread": Part("/api/v1/unread", OFTEN),
    "maintenance": Part("/api/v1/system/maintenance", OFTEN),
    "popMaintenance": Part("/api/v1/system/maintenance/pop", OFTEN),
    "ready": Part("/ready", OFTEN),
    "traffic": Part("/api/v1/status/analytics?interval=minute", SOMETIMES),
    "ledger": Part("/api/v1/ledger", SOMETIMES),
    "metrics": Part("/metrics", SOMETIMES),
}
ADMIN_PARTS = {"doctor": Part("/api/v1/doctor", RARELY)}
HANDLERS = {route.pattern: route.handler for route in ROUTES if route.method == "GET"}


class Now:
    """Some parts, for the dashboards of one server process."""

    def __init__(self, parts: Mapping[str, Part]) -> None:
        self._parts = {name: Shared(part) for name, part in parts.items()}

    async def answer(self, broker: Broker, request: Request) -> Response:
        """Answers of the public API that all open dashboards share: each as its status and its body."""
        names = (request.text("parts") or "").split(",")
        if unknown := [name for name in names if name not in self._parts]:
            raise InvalidArgument(f"parts are some of {', '.join(self._parts)}, not {unknown[0][:40]!r}")
        parts = [b"%b:%b" % (encode(name), await self._parts[name].read(broker)) for name in names]
        return Response(200, b"{%b}" % b",".join(parts))


class Shared:
    """The newest answer of one part."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._made_at: float | None = None
        self._answer = b""
        self._making = asyncio.Lock()

    async def read(self, broker: Broker) -> bytes:
        """The answer, made now if the last one is too old."""
        async with self._making:  # many may ask: one makes it
            if self._made_at is None or monotonic() - self._made_at >= self._part.seconds:
                response = await self._make(broker)
                self._answer = b'{"status":%d,"body":%b}' % (response.status, response.body)
                self._made_at = monotonic()
            return self._answer

    async def _make(self, broker: Broker) -> Response:
        request = Request("GET", self._part.target.encode(), {}, 0)
        try:
            return await HANDLERS[request.path](broker, request)
        except QueenError as error:
            return failure(error)
