"""GET /health, /ready, /metrics and /metrics/prometheus."""

import asyncio
import contextlib
from collections.abc import Iterator

from msgspec import Struct
from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from queenmq.api.diagnosis import Unread
from queenmq.api.system import Ready
from queenmq.broker import notices
from queenmq.broker.broker import Broker
from queenmq.broker.http import JSON, Request, Response, answer, encode
from queenmq.broker.metrics import DATABASE, OPERATIONS, Numbers
from queenmq.engine.figures import DeadLetters, GroupLag, Imbalance, QueueDepth, StandbyLag, Standing
from queenmq.engine.histogram import Histogram
from queenmq.engine.readiness import ANSWER_SECONDS_MAX, POSTGRESQL, Obstacle
from queenmq.errors import DatabaseUnavailable

NOT_READY = "NOT_READY"  # the code of /ready when PostgreSQL answers, but a push or a pop would not work
TEXT = ("content-type", "text/plain; version=0.0.4; charset=utf-8")


class NotReadyAnswer(Struct):
    """What would keep a push or a pop from working: the first part in short, and all parts."""

    error: str
    code: str
    hint: str
    parts: list[Obstacle]


class WorkerMetrics(Struct):
    """What all server processes of this server have counted since it started, and what they have open."""

    counters: dict[str, int]
    gauges: dict[str, int]


class RouteMetrics(Struct):
    """The requests of one route that were answered with one status; both are empty where no route was found."""

    method: str
    route: str
    status: int
    count: int
    seconds: float


class MessageMetrics(Struct, rename="camel"):
    """Messages since the server was started."""

    pushed: int
    popped: int
    acked: int
    retried: int
    dead_lettered: int


class BatchingMetrics(Struct, rename="camel"):
    """How many requests shared how many calls to the database, and how long they waited for these in all."""

    requests: int
    batches: int
    requests_per_batch: float
    round_trips_saved: int
    wait_seconds: float


class DatabaseMetrics(Struct, rename="camel"):
    """Calls to the database and how long they took, whether it is there, and since when it runs (Unix time)."""

    calls: int
    seconds: float
    available: bool
    running_since: float | None


class PollMetrics(Struct, rename="camel"):
    """Long polls that wait now; how often the fallback asked about one, and found something or did not."""

    parked: int
    pending_checks: int
    pending_check_hits: int
    pending_check_misses: int


class LeaseMetrics(Struct):
    """Leases that pops have granted, and those of all servers that are active now."""

    granted: int
    active: int


class PhaseMetrics(Struct):
    """What a phase of pops took."""

    count: int
    seconds: float


class CacheMetrics(Struct):
    """Ranges of messages that were read from memory, and that were not."""

    hits: int
    misses: int


class SpoolMetrics(Struct, rename="camel"):
    """Messages that wait in the spool of this server, their bytes, and messages that were set aside."""

    messages: int
    bytes: int
    refused_messages: int


class MetricsAnswer(Struct, rename="camel"):
    """What all workers of this server have counted since it was started, and how queues and groups stand.

    `spool` is null where there is none, or where it could not be looked at.
    """

    workers: int
    requests_in_flight: int
    requests: list[RouteMetrics]
    messages: MessageMetrics
    batching: dict[str, BatchingMetrics]
    database: DatabaseMetrics
    polls: PollMetrics
    segment_cache: CacheMetrics
    leases: LeaseMetrics
    pop_phases: dict[str, PhaseMetrics]
    spool: SpoolMetrics | None
    queues: list[QueueDepth]
    groups: list[GroupLag]
    dead_letters: list[DeadLetters]
    unread: list[Unread]
    ledger_differences: list[Imbalance]
    standbys: list[StandbyLag]


async def ready(broker: Broker, _request: Request) -> Response:
    """Whether a push and a pop would work now; 503 says what is in their way, and what to do."""
    obstacles = await _obstacles(broker)
    if not obstacles:
        return answer(Ready("ready"))
    first = obstacles[0]
    code = DatabaseUnavailable.code if first.part == POSTGRESQL else NOT_READY
    body = NotReadyAnswer(first.problem, code, first.hint, obstacles)
    return Response(503, encode(body), (JSON, ("retry-after", "1")))


async def _obstacles(broker: Broker) -> list[Obstacle]:
    obstacles = await broker.readiness.obstacles()
    if broker.spool is None and broker.presence.push_paused:
        hint = 'Resume them: POST /api/v1/system/maintenance {"enabled": false}. With QUEEN_SPOOL=true they are kept.'
        obstacles.append(Obstacle("maintenance", "pushes are paused, and this server keeps no spool", hint))
    notice = notices.read(broker.metrics.directory)
    if notice is not None:
        hint = "Wait until it runs again; if it does not, make room on its disk and look at its log."
        obstacles.insert(0, Obstacle(POSTGRESQL, notice, hint))
    return obstacles


async def worker_metrics(broker: Broker, _request: Request) -> Response:
    """Tell what the server's processes have counted, and what they have open."""
    numbers = broker.metrics.total()
    return answer(WorkerMetrics(numbers.counters, numbers.gauges))


async def metrics(broker: Broker, _request: Request) -> Response:
    """What the server has counted, as JSON."""
    numbers = broker.metrics.total()
    count = numbers.counters
    standing = await broker.engine.figures.read()
    return answer(
        MetricsAnswer(
            workers=numbers.gauges["workers"],
            requests_in_flight=numbers.gauges["requests_in_flight"],
            requests=[RouteMetrics(*labels, each.count, each.total) for labels, each in _requests(numbers)],
            messages=MessageMetrics(
                count["messages_pushed"],
                count["messages_popped"],
                count["messages_acked"],
                count["messages_retried"],
                count["messages_dead_lettered"],
            ),
            batching={name: _batching(name, numbers) for name in OPERATIONS},
            database=DatabaseMetrics(
                count["database_calls"],
                numbers.database[DATABASE].total,
                not broker.engine.database.away,
                standing.running_since,
            ),
            polls=PollMetrics(
                numbers.gauges["parked_polls"],
                count["pending_checks"],
                count["pending_check_hits"],
                count["pending_check_misses"],
            ),
            segment_cache=CacheMetrics(count["segment_cache_hits"], count["segment_cache_misses"]),
            leases=LeaseMetrics(count["leases_granted"], standing.active_leases),
            pop_phases={name: PhaseMetrics(each.count, each.total) for name, each in numbers.phases.items()},
            spool=await _spool(broker),
            queues=list(standing.depths),
            groups=list(standing.lags),
            dead_letters=list(standing.dead_letters),
            unread=list(standing.unread),
            ledger_differences=list(standing.ledger),
            standbys=list(standing.standbys),
        )
    )


async def prometheus(broker: Broker, _request: Request) -> Response:
    """What the server has counted, as Prometheus reads it."""
    numbers = broker.metrics.total()
    standing = await broker.engine.figures.read()
    families = [
        *_families(numbers),
        *_queue_families(standing),
        *_database_families(standing, is_away=broker.engine.database.away),
        *_spool_families(await _spool(broker)),
    ]
    return Response(200, generate_latest(_Collected(families)), (TEXT,))


async def _spool(broker: Broker) -> SpoolMetrics | None:
    if broker.spool is not None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                return SpoolMetrics(*await broker.spool.buffered())
    return None


class _Collected:
    """A registry of what is there."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> list[Metric]:
        return self._families


def _requests(numbers: Numbers) -> Iterator[tuple[tuple[str, str, int], Histogram]]:
    """Requests by method, route and status."""
    for key, found in sorted(numbers.requests.items()):
        method, route, status = key.split(" ")
        yield (method, route, int(status)), found


def _batching(operation: str, numbers: Numbers) -> BatchingMetrics:
    count = numbers.counters
    requests, batches = count[f"{operation}_requests"], count[f"{operation}_batches"]
    each = round(requests / batches, 2) if batches else 0.0
    return BatchingMetrics(requests, batches, each, count[f"{operation}_saved"], numbers.waits[operation].total)


def _families(numbers: Numbers) -> Iterator[Metric]:
    count, gauges = numbers.counters, numbers.gauges
    durations = HistogramMetricFamily(
        "queen_request_seconds", "Requests and how long they took.", labels=("method", "route", "status")
    )
    for (method, route, status), each in _requests(numbers):
        durations.add_metric((method, route, str(status)), each.cumulative(), each.total)
    yield durations
    for name, help, label, found in (
        ("pop_phase_seconds", "What the phases of pops took.", "phase", numbers.phases),
        ("queue_wait_seconds", "How long requests waited for a call to the database.", "operation", numbers.waits),
        ("batch_requests", "Requests that shared a call to the database.", "operation", numbers.batches),
    ):
        histogram = HistogramMetricFamily(f"queen_{name}", help, labels=(label,))
        for key, each in found.items():
            histogram.add_metric((key,), each.cumulative(), each.total)
        yield histogram
    calls = numbers.database[DATABASE]
    yield HistogramMetricFamily(
        "queen_database_call_seconds", "What calls to the database took.", calls.cumulative(), calls.total
    )
    for name, help in (
        ("messages_pushed", "Messages pushed."),
        ("messages_popped", "Messages delivered."),
        ("messages_acked", "Messages acknowledged."),
        ("messages_retried", "Messages that an ack gave back, to be delivered again."),
        ("messages_dead_lettered", "Messages that an ack made dead letters."),
        ("leases_granted", "Partitions that pops leased to consumers."),
        ("pending_checks", "Parked polls that the fallback asked about."),
        ("pending_check_hits", "Those for which there was something."),
        ("pending_check_misses", "Those for which there was nothing."),
        ("database_calls", "Calls to the database."),
        ("segment_cache_hits", "Ranges of messages that were read from memory."),
        ("segment_cache_misses", "Ranges of messages that were read from the database."),
    ):
        yield CounterMetricFamily(f"queen_{name}", help, value=count[name])
    for what, name, help in (
        ("requests", "batched_requests", "Requests that were gathered into calls to the database."),
        ("batches", "batched_batches", "Calls to the database that they became."),
        ("saved", "round_trips_saved", "Requests that shared the call of another one."),
    ):
        family = CounterMetricFamily(f"queen_{name}", help, labels=("operation",))
        for operation in OPERATIONS:
            family.add_metric((operation,), count[f"{operation}_{what}"])
        yield family
    for name, help in (
        ("workers", "Server processes."),
        ("parked_polls", "Long polls that wait."),
        ("requests_in_flight", "Requests that are not yet answered, parked polls included."),
    ):
        yield GaugeMetricFamily(f"queen_{name}", help, value=gauges[name])


def _queue_families(standing: Standing) -> Iterator[Metric]:
    stored = GaugeMetricFamily("queen_queue_stored_messages", "Messages kept in a queue.", labels=("queue",))
    depth = GaugeMetricFamily("queen_queue_depth", "Messages some group has not finished.", labels=("queue",))
    limit = GaugeMetricFamily("queen_queue_limit", "How deep a queue may be, if that is limited.", labels=("queue",))
    for queue in standing.depths:
        stored.add_metric((queue.queue,), queue.stored)
        depth.add_metric((queue.queue,), queue.depth)
        if queue.limit is not None:
            limit.add_metric((queue.queue,), queue.limit)
    labels = ("queue", "group")
    messages = GaugeMetricFamily("queen_group_lag_messages", "Messages a group has yet to finish.", labels=labels)
    seconds = GaugeMetricFamily("queen_group_lag_seconds", "Age of the oldest of them.", labels=labels)
    for lag in standing.lags:
        messages.add_metric((lag.queue, lag.group), lag.messages)
        seconds.add_metric((lag.queue, lag.group), lag.seconds)
    dead = GaugeMetricFamily("queen_dead_letters", "Dead letters that are stored.", labels=("queue",))
    for each in standing.dead_letters:
        dead.add_metric((each.queue,), each.stored)
    leases = GaugeMetricFamily("queen_active_leases", "Leases that have not expired.", value=standing.active_leases)
    unread = GaugeMetricFamily(
        "queen_unread_messages", "Stored messages that no group has asked for.", labels=("queue",)
    )
    unread_seconds = GaugeMetricFamily("queen_unread_seconds", "Age of the oldest of them.", labels=("queue",))
    for line in standing.unread:
        unread.add_metric((line.queue,), line.messages)
        unread_seconds.add_metric((line.queue,), line.seconds)
    help = "Messages that the ledger of a queue does not account for, or counts twice."
    ledger = GaugeMetricFamily("queen_ledger_difference_messages", help, labels=("queue",))
    for imbalance in standing.ledger:
        ledger.add_metric((imbalance.queue,), imbalance.messages)
    return iter((stored, depth, limit, messages, seconds, dead, leases, unread, unread_seconds, ledger))


def _database_families(standing: Standing, *, is_away: bool) -> Iterator[Metric]:
    yield GaugeMetricFamily("queen_database_available", "1, or 0 while PostgreSQL is away.", value=not is_away)
    if standing.running_since is not None:
        help = "When this run of PostgreSQL began; a restart, a failover or a restore changes it."
        yield GaugeMetricFamily("queen_database_running_since_seconds", help, value=standing.running_since)
    labels = ("standby",)
    missing = GaugeMetricFamily("queen_standby_missing_bytes", "Log that a standby does not have yet.", labels=labels)
    help = "How long ago a standby has reported."
    silent = GaugeMetricFamily("queen_standby_silent_seconds", help, labels=labels)
    for standby in standing.standbys:
        missing.add_metric((standby.name,), standby.missing_bytes)
        silent.add_metric((standby.name,), standby.silent_seconds)
    yield from (missing, silent)


def _spool_families(spool: SpoolMetrics | None) -> Iterator[Metric]:
    if spool is not None:
        yield GaugeMetricFamily("queen_spool_messages", "Messages that wait in the spool.", value=spool.messages)
        yield GaugeMetricFamily("queen_spool_bytes", "Bytes of their files.", value=spool.bytes)
        help = "Messages that were refused when they were to be stored, and set aside."
        yield GaugeMetricFamily("queen_spool_refused_messages", help, value=spool.refused_messages)
