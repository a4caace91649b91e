"""The broker's route table. Read this first; `dispatch` has the way of a request to it."""

from collections.abc import Mapping, Sequence
from typing import Any

from queenmq.api.call import Call, answer_type, shapes
from queenmq.api.system import Ping
from queenmq.broker import calls, openapi
from queenmq.broker.routes import (
    ack,
    health,
    pop,
    push,
    reading,
    transaction,
)
from queenmq.broker.routing import Handler, Route
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
    Route("GET", "/openapi.json", openapi.description_of(lambda: ROUTES), None),
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
