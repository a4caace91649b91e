"""The broker's route table, and what routes work with. Read this first; `dispatch` has the way of a request to them."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from queenmq.api.call import Call, answer_type, shapes
from queenmq.api.diagnosis import Check
from queenmq.api.system import Ping
from queenmq.broker import calls, openapi
from queenmq.broker.delivered import RunTexts
from queenmq.broker.deliveries import Deliveries
from queenmq.broker.exposure import examine_access
from queenmq.broker.metrics import Metrics
from queenmq.broker.routes import (
    ack,
    health,
    pop,
    push,
    reading,
    transaction,
)
from queenmq.broker.routing import Handler, Route
from queenmq.broker.spool import Spool
from queenmq.config import Settings, masked
from queenmq.engine import Engine
from queenmq.engine.checkup import disk
from queenmq.engine.presence import Presence
from queenmq.engine.readiness import Readiness
from queenmq.service import SERVICES

OTHER_ROUTES: Sequence[Route] = (
    # -- traffic
    Route("POST", "/api/v1/push", push.push, "producer", takes=push.PushBody, gives=push.Results, query=push.QUERY),
    Route(
        "POST",
        "/api/v1/push/queue/{queue}",
        push.push_array,
        "producer",
        takes=list[Any],
        gives=push.ArrayResult,
        query=push.ARRAY_QUERY,
    ),
    Route(
        "POST",
        "/api/v1/push/queue/{queue}/partition/{partition}",
        push.push_array,
        "producer",
        takes=list[Any],
        gives=push.ArrayResult,
        query=push.ARRAY_QUERY,
    ),
    Route("GET", "/api/v1/pop", pop.pop, "consumer", gives=pop.PopAnswer, query=pop.QUERY | pop.NAMESPACE_QUERY),
    Route("GET", "/api/v1/pop/queue/{queue}", pop.pop, "consumer", gives=pop.PopAnswer, query=pop.QUERY),
    Route(
        "GET",
        "/api/v1/pop/queue/{queue}/partition/{partition}",
        pop.pop,
        "consumer",
        gives=pop.PopAnswer,
        query=pop.QUERY,
    ),
    Route("POST", "/api/v1/ack", ack.ack, "consumer", takes=ack.AckBody, gives=list[ack.AckResult]),
    Route("POST", "/api/v1/ack/batch", ack.ack_batch, "consumer", takes=ack.AckBatchBody, gives=list[ack.AckResult]),
    Route(
        "POST",
        "/api/v1/lease/{lease}/extend",
        ack.extend,
        "consumer",
        takes=ack.ExtendBody,
        gives=list[ack.ExtendResult],
    ),
    Route(
        "POST", "/api/v1/leases/extend", ack.extend_many, "consumer", takes=ack.LeasesBody, gives=list[ack.ExtendResult]
    ),
    Route("POST", "/api/v1/lease/{lease}/release", ack.release, "consumer", gives=list[ack.ReleaseResult]),
    Route(
        "POST",
        "/api/v1/transaction",
        transaction.transaction,
        "producer or consumer",
        takes=transaction.TransactionBody,
        gives=transaction.TransactionAnswer,
    ),
    # -- reads by offset
    Route("POST", "/api/v1/fetch", reading.fetch, "read-only", takes=reading.FetchBody, gives=reading.FetchAnswer),
    Route(
        "POST",
        "/api/v1/partitions/changed",
        reading.changed,
        "read-only",
        takes=reading.ChangedBody,
        gives=reading.ChangedAnswer,
    ),
    Route("GET", "/api/v1/analytics/worker-metrics", health.worker_metrics, "read-only", gives=health.WorkerMetrics),
    # -- the server
    Route("GET", "/metrics", health.metrics, "read-only", gives=health.MetricsAnswer),
    Route("GET", "/metrics/prometheus", health.prometheus, "read-only"),
    Route("GET", "/openapi.json", openapi.openapi, None),
    Route("GET", "/docs", openapi.docs, None),
)
BY_HAND: Mapping[type[Call[Any]], Handler] = {Ping: health.ready}
ROUTES: Sequence[Route] = (
    *OTHER_ROUTES,
    *(route for call, service in SERVICES.items() if call not in BY_HAND for route in calls.routes(call, service)),
    *(
        calls.route(shape, handler, gives=answer_type(call))
        for call, handler in BY_HAND.items()
        for shape in shapes(call)
    ),
)


class Broker:
    """What routes work with."""

    def __init__(
        self, engine: Engine, presence: Presence, spool: Spool | None, settings: Settings, metrics: Metrics
    ) -> None:
        self.engine = engine
        self.presence = presence
        self.readiness = Readiness(engine.database, presence)
        self.spool = spool
        self.settings = settings
        self.metrics = metrics
        self.deliveries = Deliveries()
        self.texts = RunTexts()

    @cached_property
    def description(self) -> bytes:
        """The routes, as /openapi.json tells of them."""
        return openapi.describe(ROUTES)

    async def buffered(self) -> tuple[int, int, int]:
        """The messages in the spool, their bytes, and the messages that were refused."""
        return (0, 0, 0) if self.spool is None else await self.spool.buffered()

    def own_checks(self) -> tuple[Sequence[Check], Sequence[Check]]:
        """What `queen doctor` says about this server."""
        database = Check(name="database", severity="ok", detail=masked(self.engine.database.dsn))
        spool = [] if self.spool is None else [disk("disk of the spool", self.spool.directory)]
        return [database, examine_access(self.settings)], spool
