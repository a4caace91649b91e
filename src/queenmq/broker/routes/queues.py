"""POST /configure; /resources: queues, namespaces, tasks; clear and delete."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import asdict

from queenmq.broker import wire
from queenmq.broker.http import Request, Response, answer
from queenmq.broker.routes.partitions import LIMIT, LIMIT_MAX, PartitionSummary, page
from queenmq.engine.statistics import Totals
from queenmq.errors import InvalidArgument, InvalidSetting
from queenmq.model import QueueSettings

if TYPE_CHECKING:
    from queenmq.broker.app import Broker

OFFSET_MAX = 1_000_000

LIST_QUERY = {
    "namespace": "only queues of this namespace",
    "task": "only queues of this task",
    "search": "only queues whose name contains this, in any case",
    "limit": f"most queues to list, up to {LIMIT_MAX} ({LIMIT})",
    "offset": "queues to pass over (0)",
}
LABELS_QUERY = {"limit": f"most to list, up to {LIMIT_MAX} ({LIMIT_MAX})"}
# What clients call the settings of a queue. One of them has two names.
NAMES = {
    "lease_seconds": "leaseTime",
    "retry_limit": "retryLimit",
    "retry_delay_ms": "retryDelay",
    "retry_backoff": "retryBackoff",
    "priority": "priority",
    "max_queue_size": "maxSize",
    "delayed_processing_seconds": "delayedProcessing",
    "window_buffer_seconds": "windowBuffer",
    "max_wait_seconds": "maxWaitTimeSeconds",
    "ttl_seconds": "ttl",
    "retention_enabled": "retentionEnabled",
    "retention_seconds": "retentionSeconds",
    "completed_retention_seconds": "completedRetentionSeconds",
    "dead_letter_retention_seconds": "deadLetterRetentionSeconds",
    "dedup_window_seconds": "dedupWindowSeconds",
    "encryption_enabled": "encryptionEnabled",
    "dead_letter_enabled": "deadLetterQueue",
    "dead_letter_enabled_too": "dlqAfterMaxRetries",
}
SECOND_NAMES = {"dead_letter_enabled_too": "dead_letter_enabled"}

DecadeSeconds = Annotated[int, Meta(ge=0, le=315_360_000)]


class Options(Struct, frozen=True, kw_only=True, rename=NAMES, forbid_unknown_fields=True, omit_defaults=True):
    """A queue's settings, all of them or those that are to change."""

    lease_seconds: Annotated[int, Meta(ge=1, le=604_800)] | UnsetType = UNSET
    retry_limit: Annotated[int, Meta(ge=0, le=1_000)] | UnsetType = UNSET
    retry_delay_ms: Annotated[int, Meta(ge=0, le=86_400_000)] | UnsetType = UNSET
    retry_backoff: Annotated[int, Meta(ge=1, le=10)] | UnsetType = UNSET
    priority: Annotated[int, Meta(ge=-1_000_000, le=1_000_000)] | UnsetType = UNSET
    max_queue_size: Annotated[int, Meta(ge=0, le=1_000_000_000_000)] | UnsetType = UNSET
    delayed_processing_seconds: Annotated[int, Meta(ge=0, le=31_536_000)] | UnsetType = UNSET
    window_buffer_seconds: Annotated[int, Meta(ge=0, le=604_800)] | UnsetType = UNSET
    max_wait_seconds: DecadeSeconds | UnsetType = UNSET
    ttl_seconds: DecadeSeconds | UnsetType = UNSET
    retention_enabled: bool | UnsetType = UNSET
    retention_seconds: DecadeSeconds | UnsetType = UNSET
    completed_retention_seconds: DecadeSeconds | UnsetType = UNSET
    dead_letter_retention_seconds: DecadeSeconds | UnsetType = UNSET
    dedup_window_seconds: Annotated[int, Meta(ge=0, le=2_592_000)] | UnsetType = UNSET
    encryption_enabled: bool | UnsetType = UNSET
    dead_letter_enabled: bool | UnsetType = UNSET
    dead_letter_enabled_too: bool | UnsetType = UNSET

    @classmethod
    def of(cls, settings: QueueSettings) -> "Options":
        """All of a queue's settings."""
        return cls(**{name: getattr(settings, SECOND_NAMES.get(name, name)) for name in NAMES})

    def named(self) -> dict[str, Any]:
        """What is to change, by the names of the settings; refuses two names that contradict each other."""
        given = {name: value for name, value in asdict(self).items() if value is not UNSET}
        for second, first in SECOND_NAMES.items():
            if second in given and given.setdefault(first, given[second]) != given.pop(second):
                raise InvalidSetting(f"{NAMES[first]} and {NAMES[second]} are the same setting, with different values")
        return given


class ConfigureBody(Struct):
    """A queue to create, or to change in what is named."""

    queue: str
    namespace: str | None = None
    task: str | None = None
    options: Options | None = None


class ConfigureAnswer(Struct, rename="camel"):
    """The queue as it is now; partitionId is that of its default partition."""

    configured: bool
    queue: str
    namespace: str
    task: str
    queue_id: str
    partition_id: str
    options: Options


class MessageTotals(Struct, rename="camel"):
    """Stored messages: `total` = `pending` + `processing` + `completed`; the `failed` ones wait to be tried again."""

    total: int
    pending: int
    processing: int
    completed: int
    failed: int
    dead_letter: int

    @classmethod
    def of(cls, totals: Totals) -> "MessageTotals":
        """As clients read it."""
        finished = totals.stored - totals.pending - totals.leased
        return cls(totals.stored, totals.pending, totals.leased, finished, totals.retrying, totals.dead_letters)


class QueueSummary(Struct, rename="camel"):
    """A queue and what it holds, as of `countedAt`."""

    id: str
    name: str
    namespace: str
    task: str
    priority: int
    created_at: datetime
    partitions: int
    messages: MessageTotals
    counted_at: datetime | None

    @classmethod
    def of(cls, settings: QueueSettings, totals: Totals) -> "QueueSummary":
        """As clients read it."""
        return cls(
            wire.queue_text(settings.id),
            settings.name,
            settings.namespace,
            settings.task,
            settings.priority,
            settings.created_at,
            totals.partitions,
            MessageTotals.of(totals),
            totals.counted_at,
        )


class QueueList(Struct):
    """A page of queues, and how many there are on all pages."""

    queues: list[QueueSummary]
    total: int


class QueueDetail(Struct, rename="camel"):
    """A queue with its settings, what it holds, and a page of its partitions."""

    id: str
    name: str
    namespace: str
    task: str
    created_at: datetime
    options: Options
    totals: MessageTotals
    counted_at: datetime | None
    partition_count: int
    partitions: list[PartitionSummary]
    next_cursor: str | None


class Label(Struct):
    """A namespace or a task: how many queues it has, and what these hold."""

    name: str
    queues: int
    partitions: int
    messages: MessageTotals


class NamespaceList(Struct):
    """All namespaces."""

    namespaces: list[Label]


class TaskList(Struct):
    """All tasks."""

    tasks: list[Label]


class DeleteAnswer(Struct):
    """The queue is not there any more; `existed`: it was before."""

    deleted: bool
    existed: bool
    queue: str


class ClearAnswer(Struct):
    """How many messages were dropped."""

    cleared: bool
    queue: str
    messages: int


_configure = msgspec.json.Decoder(ConfigureBody)


async def configure(broker: "Broker", request: Request) -> Response:
    """Create a queue, or change what is named of it."""
    try:
        body = await request.json(_configure)
    except InvalidArgument as error:
        if "`$.options" in error.message:
            raise InvalidSetting(error.message) from None
        raise
    options = body.options.named() if body.options is not None else {}
    settings = await broker.engine.admin.configure_queue(
        body.queue, namespace=body.namespace, task=body.task, **options
    )
    partition_id = await broker.engine.admin.default_partition(body.queue)
    return answer(
        ConfigureAnswer(
            configured=True,
            queue=settings.name,
            namespace=settings.namespace,
            task=settings.task,
            queue_id=wire.queue_text(settings.id),
            partition_id=wire.partition_text(partition_id),
            options=Options.of(settings),
        )
    )


async def list_queues(broker: "Broker", request: Request) -> Response:
    """List queues by name, with what they hold."""
    queues, total = await broker.engine.statistics.queues(
        namespace=request.text("namespace"),
        task=request.text("task"),
        search=request.text("search"),
        limit=request.number("limit", LIMIT, 1, LIMIT_MAX),
        offset=request.number("offset", 0, 0, OFFSET_MAX),
    )
    return answer(QueueList([QueueSummary.of(*each) for each in queues], total))


async def get_queue(broker: "Broker", request: Request) -> Response:
    """Show a queue with its settings, what it holds, and its partitions page by page."""
    return answer(await describe(broker, request))


async def describe(broker: "Broker", request: Request) -> QueueDetail:
    """A queue and a page of its partitions."""
    settings, totals = await broker.engine.statistics.queue(request.path_parameters["queue"])
    partitions, cursor = await page(broker, request, settings.id)
    return QueueDetail(
        id=wire.queue_text(settings.id),
        name=settings.name,
        namespace=settings.namespace,
        task=settings.task,
        created_at=settings.created_at,
        options=Options.of(settings),
        totals=MessageTotals.of(totals),
        counted_at=totals.counted_at,
        partition_count=totals.partitions,
        partitions=partitions,
        next_cursor=cursor,
    )


async def delete_queue(broker: "Broker", request: Request) -> Response:
    """Remove a queue with everything in it."""
    queue = request.path_parameters["queue"]
    return answer(DeleteAnswer(deleted=True, existed=await broker.engine.admin.delete_queue(queue), queue=queue))


async def clear_queue(broker: "Broker", request: Request) -> Response:
    """Drop all stored messages of a queue; its partitions and groups stay."""
    queue = request.path_parameters["queue"]
    return answer(ClearAnswer(cleared=True, queue=queue, messages=await broker.engine.admin.clear_queue(queue)))


async def list_namespaces(broker: "Broker", request: Request) -> Response:
    """List the namespaces of all queues."""
    return answer(NamespaceList(_labels(await broker.engine.statistics.namespaces(_labels_limit(request)))))


async def list_tasks(broker: "Broker", request: Request) -> Response:
    """List the tasks of all queues."""
    return answer(TaskList(_labels(await broker.engine.statistics.tasks(_labels_limit(request)))))


def _labels_limit(request: Request) -> int:
    return request.number("limit", LIMIT_MAX, 1, LIMIT_MAX)


def _labels(found: Sequence[tuple[str, int, Totals]]) -> list[Label]:
    return [Label(name, queues, totals.partitions, MessageTotals.of(totals)) for name, queues, totals in found]
