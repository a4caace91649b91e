"""The broker's route table and the way of a request through it. Read this first."""

import asyncio
import logging
from collections.abc import Sequence
from time import perf_counter
from typing import Any

from queenmq.broker.auth import configured_authenticator
from queenmq.broker.deliveries import Deliveries
from queenmq.broker.http import Request, Response, failure
from queenmq.broker.routes import ack, groups, pop, push, reading, traces, transaction
from queenmq.broker.routing import Route, Router
from queenmq.config import Settings
from queenmq.engine import Engine
from queenmq.errors import QueenError

log = logging.getLogger(__name__)

ROUTES: Sequence[Route] = (
    # -- traffic
    Route("POST", "/api/v1/push", push.push, "producer", takes=push.PushBody, gives=list[push.PushResult]),
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
        "POST",
        "/api/v1/transaction",
        transaction.transaction,
        "producer or consumer",
        takes=transaction.TransactionBody,
        gives=transaction.TransactionAnswer,
    ),
    # -- reads by offset
    Route("POST", "/api/v1/fetch", reading.fetch, "consumer", takes=reading.FetchBody, gives=reading.FetchAnswer),
    Route(
        "POST",
        "/api/v1/partitions/changed",
        reading.changed,
        "read-only",
        takes=reading.ChangedBody,
        gives=reading.ChangedAnswer,
    ),
    # -- consumer groups
    Route("GET", "/api/v1/consumer-groups", groups.list_groups, "read-only", gives=list[groups.Group]),
    Route(
        "GET",
        "/api/v1/consumer-groups/lagging",
        groups.list_lagging,
        "read-only",
        gives=list[groups.Group],
        query=groups.LAGGING_QUERY,
    ),
    Route(
        "GET",
        "/api/v1/consumer-groups/{group}",
        groups.describe_group,
        "read-only",
        gives=dict[str, groups.Places],
        query=groups.PLACES_QUERY,
    ),
    Route(
        "DELETE",
        "/api/v1/consumer-groups/{group}",
        groups.delete_group,
        "admin",
        gives=groups.DeleteAnswer,
        query=groups.DELETE_QUERY,
    ),
    Route(
        "DELETE",
        "/api/v1/consumer-groups/{group}/queues/{queue}",
        groups.delete_group,
        "admin",
        gives=groups.DeleteAnswer,
        query=groups.DELETE_QUERY,
    ),
    Route(
        "POST",
        "/api/v1/consumer-groups/{group}/subscription",
        groups.set_subscription,
        "admin",
        takes=groups.SubscriptionBody,
        gives=groups.SubscriptionAnswer,
    ),
    Route(
        "POST",
        "/api/v1/consumer-groups/{group}/queues/{queue}/seek",
        groups.seek,
        "admin",
        takes=groups.SeekBody,
        gives=groups.SeekAnswer,
    ),
    Route(
        "POST",
        "/api/v1/consumer-groups/{group}/queues/{queue}/partitions/{partition}/seek",
        groups.seek_partition,
        "admin",
        takes=groups.PartitionSeekBody,
        gives=groups.SeekAnswer,
    ),
    # -- traces
    Route("POST", "/api/v1/traces", traces.record, "consumer", takes=traces.TraceBody, gives=traces.TraceAnswer),
    Route("GET", "/api/v1/traces/names", traces.list_names, "read-only", gives=traces.Names, query=traces.PAGE_QUERY),
    Route(
        "GET",
        "/api/v1/traces/by-name/{name}",
        traces.list_by_name,
        "read-only",
        gives=traces.NamedEvents,
        query=traces.PAGE_QUERY,
    ),
    Route("GET", "/api/v1/traces/id/{trace}", traces.follow, "read-only", gives=traces.TraceSteps),
    Route(
        "GET",
        "/api/v1/traces/{partition_id}/{transaction}",
        traces.list_of_message,
        "read-only",
        gives=traces.MessageEvents,
    ),
)


class Broker:
    """What routes work with."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self.engine = engine
        self.settings = settings
        self.deliveries = Deliveries()


class Application:
    """Takes a request from granian, finds its route, answers."""

    def __init__(self, broker: Broker, routes: Sequence[Route] = ROUTES) -> None:
        self.broker = broker
        self.router = Router(routes)
        self._authenticator = configured_authenticator(broker.settings)
        self._body_bytes_max = broker.settings.body_bytes_max
        self._body_seconds_max = broker.settings.body_timeout_ms / 1000
        self._in_flight = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def idle(self) -> None:
        """Return when no request is in flight."""
        await self._idle.wait()

    async def __rsgi__(self, scope: Any, protocol: Any) -> None:
        """Answer one request."""
        request = Request(scope, protocol, self._body_bytes_max, self._body_seconds_max)
        self._in_flight += 1
        self._idle.clear()
        try:
            response = await self._respond(request)
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                self._idle.set()
        headers = list(response.headers)
        if request.method == "HEAD" or not response.body:
            protocol.response_empty(response.status, headers)
        else:
            protocol.response_bytes(response.status, headers, response.body)

    async def _respond(self, request: Request) -> Response:
        try:
            route = self.router.find(request)
            if self._authenticator is not None and route.role is not None:
                await self._authenticator.admit(request, route.role)
            return await route.handler(self.broker, request)
        except QueenError as error:
            return failure(error)
        except Exception:
            log.exception("a request failed in an unforeseen way", extra={"path": request.path})
            return failure(QueenError("something went wrong in the server"))
        finally:
            request.phases["total"] = perf_counter() - request.started
