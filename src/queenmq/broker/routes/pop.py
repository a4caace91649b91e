"""GET /pop: by partition, by queue, by namespace and task; waiting if asked to."""

from collections.abc import Iterable
from datetime import datetime
from itertools import chain, islice, repeat
from time import perf_counter
from typing import get_args
from uuid import UUID

from msgspec import UNSET, Raw, Struct, UnsetType

from queenmq.broker import wire
from queenmq.broker.broker import Broker
from queenmq.broker.http import EMPTY, Request, Response, encode
from queenmq.engine.pop.popper import POPS_MAX, Popped
from queenmq.errors import InvalidArgument
from queenmq.model import QUEUE_MODE, PopRequest, SubscriptionMode
from queenmq.service.ids import id_text

BATCH = 1
AUTOPILOT_BATCH = 200
WAIT_MS = 30_000
WAIT_MS_MAX = 3_600_000
PARTITIONS_MAX = 1_000
LEASE_SECONDS_MAX = 604_800

NOTHING = Popped((), ())

MODES: dict[str, SubscriptionMode] = {mode: mode for mode in get_args(SubscriptionMode)}

QUERY = {
    "batch": f"most messages to get ({BATCH}; with autopilot={AUTOPILOT_BATCH})",
    "wait": "wait for messages when there are none (false)",
    "timeout": f"longest to wait, in milliseconds ({WAIT_MS})",
    "consumerGroup": f"the group to read as ({QUEUE_MODE})",
    "autoAck": "acknowledge at once (false)",
    "subscriptionMode": f"where a new group starts: {', '.join(MODES)}",
    "subscriptionFrom": "where a new group starts: now, or a timestamp",
    "partitions": "most partitions to take under one lease; batch is then the total (1)",
    "pops": f"as so many pops at once, up to {POPS_MAX}, each with a lease of its own (1)",
    "leaseTime": "seconds the lease lasts (the queue's)",
    "empty": "200: answer with an empty list instead of 204 when there is nothing",
}
NAMESPACE_QUERY = {"namespace": "any queue of this namespace", "task": "any queue of this task"}


class PoppedMessage(Struct, gc=False, rename="camel"):
    """A delivered message."""

    id: str
    transaction_id: str
    trace_id: UUID | None
    data: Raw
    created_at: datetime
    queue: str
    partition: str
    partition_id: str
    offset: int
    lease_id: str
    consumer_group: str
    producer_sub: str | None
    retry_count: int
    headers: wire.StoredHeaders = UNSET


class PopAnswer(Struct, rename="camel", kw_only=True):
    """What a pop brought; queue, partition, partitionId and leaseId are those of the first message.

    `more`: the answer ends here because of QUEEN_POP_BYTES_MAX; pop again for the rest.
    """

    success: bool
    queue: str | None
    partition: str | None
    partition_id: str | None
    lease_id: str
    consumer_group: str
    partitions_claimed: int
    more: bool | UnsetType = UNSET
    messages: list[PoppedMessage]


async def pop(broker: Broker, request: Request) -> Response:
    """Lease messages; with wait=true, wait until there are some."""
    asked = _request(request, broker.settings.batch_messages_max)
    wait = request.flag("wait")
    empty_status = request.number("empty", 204, 200, 204)
    timeout_ms = request.number("timeout", WAIT_MS, 0, WAIT_MS_MAX)
    count = request.number("pops", 1, 1, POPS_MAX)
    popped = await _pop(broker, request, asked, timeout_ms / 1000 if wait else 0.0, count)
    _note_times(request, popped, waited=wait)
    broker.metrics.popped += popped.message_count
    broker.metrics.leases += sum(lease.id is not None for lease in popped.leases)
    if not popped.runs and empty_status == 204:
        broker.metrics.served(request.phases)
        return EMPTY
    lease_id = str(popped.leases[0].id or "") if popped.leases else ""
    told = [broker.texts.told(popped.incarnation, run, str(run.lease.id or "")) for run in popped.runs]
    if lease_id and told:
        broker.deliveries.remember(zip(popped.runs, (each.names for each in told), strict=True))
    response = Response(200, _text(popped, lease_id, asked.group, (each.text for each in told)))
    request.phases["encode"] = perf_counter() - request.started - sum(request.phases.values())
    broker.metrics.served(request.phases)
    return response


def _note_times(request: Request, popped: Popped, *, waited: bool) -> None:
    """For the log of slow requests: what took how long. Who asked to wait is not slow while waiting."""
    phases = request.phases
    if popped.times is not None:
        phases["lease"], phases["read"] = popped.times.lease_seconds, popped.times.payload_seconds
    phases["wait"] = perf_counter() - request.started - sum(phases.values())
    if waited:
        request.parked_seconds = phases["wait"]


async def _pop(broker: Broker, request: Request, asked: PopRequest, wait_seconds: float, count: int) -> Popped:
    """Pop; a client that has gone away takes nothing with it."""
    if request.is_abandoned():
        return NOTHING
    request.waits_for_client = True  # from here on, this ends where the client does
    popped = await broker.engine.pop(asked, wait_seconds, count)
    request.waits_for_client = False
    if request.is_abandoned():  # served in the very moment
        for lease_id in {lease.id for lease in popped.leases if lease.id is not None}:
            await broker.engine.release(lease_id)
        return NOTHING
    return popped


def _request(request: Request, batch_max: int) -> PopRequest:
    path = request.path_parameters
    queue = path.get("queue")
    namespace, task = (None, None) if queue is not None else (request.text("namespace"), request.text("task"))
    if queue is None and namespace is None and task is None:
        raise InvalidArgument("name a namespace or a task, or pop from /pop/queue/{queue}")
    mode, since = _subscription(request)
    lease = request.number("leaseTime", 0, 1, LEASE_SECONDS_MAX)
    return PopRequest(
        queue=queue,
        partition=path.get("partition"),
        namespace=namespace,
        task=task,
        group=request.text("consumerGroup") or QUEUE_MODE,
        batch=request.number("batch", AUTOPILOT_BATCH if request.flag("autopilot") else BATCH, 1, batch_max),
        max_partitions=request.number("partitions", 1, 1, PARTITIONS_MAX),
        lease_seconds=lease or None,
        auto_ack=request.flag("autoAck"),
        subscription_mode=mode,
        subscription_from=since,
    )


def _subscription(request: Request) -> tuple[SubscriptionMode | None, datetime | None]:
    mode = request.text("subscriptionMode")
    since = request.text("subscriptionFrom")
    if mode is not None and mode not in MODES:
        raise InvalidArgument(f"the subscription mode is one of {', '.join(MODES)}, not {mode[:40]!r}")
    if since == "now":
        return "new", None  # by the database's clock
    if since is not None:
        return "timestamp", request.moment("subscriptionFrom")
    return (None if mode is None else MODES[mode]), None


def _text(popped: Popped, lease_id: str, group: str, messages: Iterable[bytes]) -> bytes:
    """A PopAnswer, its messages as they are told."""
    first = popped.leases[0] if popped.leases else None
    answered = PopAnswer(
        success=True,
        queue=first.queue if first else None,
        partition=first.partition if first else None,
        partition_id=id_text(first.partition_id) if first else None,
        lease_id=lease_id,
        consumer_group=group,
        partitions_claimed=len(popped.leases),
        more=popped.more or UNSET,
        messages=[],
    )
    between = chain.from_iterable(zip(repeat(b","), messages))
    return b"".join((encode(answered).removesuffix(b"]}"), *islice(between, 1, None), b"]}"))
