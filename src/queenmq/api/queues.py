"""Queues and their partitions: configure, describe, clear, delete."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import fields

from queenmq.api.call import Call, Cursor, Endpoint, Limit, LongLimit, Skip
from queenmq.errors import InvalidSetting

SETTING_NAMES = {  # over HTTP
    "lease_seconds": "leaseTime",
    "retry_limit": "retryLimit",
    "retry_delay_ms": "retryDelay",
    "retry_backoff": "retryBackoff",
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
}
SECOND_NAME = "dlqAfterMaxRetries"  # of dead_letter_enabled

DecadeSeconds = Annotated[int, Meta(ge=0, le=315_360_000)]


class QueueOptions(TypedDict, total=False):
    """What can be set of a queue, for type checkers; docs/queues.md says what each setting does."""

    lease_seconds: int
    retry_limit: int
    retry_delay_ms: int
    retry_backoff: int
    priority: int
    max_queue_size: int
    delayed_processing_seconds: int
    window_buffer_seconds: int
    max_wait_seconds: int
    ttl_seconds: int
    retention_enabled: bool
    retention_seconds: int
    completed_retention_seconds: int
    dead_letter_retention_seconds: int
    dedup_window_seconds: int
    encryption_enabled: bool
    dead_letter_enabled: bool


class QueueSettings(Struct, frozen=True, kw_only=True, rename=SETTING_NAMES):
    """A queue as it is configured."""

    lease_seconds: Annotated[int, Meta(ge=1, le=604_800)]
    retry_limit: Annotated[int, Meta(ge=0, le=1_000)]
    retry_delay_ms: Annotated[int, Meta(ge=0, le=86_400_000)]
    retry_backoff: Annotated[int, Meta(ge=1, le=10)]
    priority: Annotated[int, Meta(ge=-1_000_000, le=1_000_000)]
    max_queue_size: Annotated[int, Meta(ge=0, le=1_000_000_000_000)]
    delayed_processing_seconds: Annotated[int, Meta(ge=0, le=31_536_000)]
    window_buffer_seconds: Annotated[int, Meta(ge=0, le=604_800)]
    max_wait_seconds: DecadeSeconds
    ttl_seconds: DecadeSeconds
    retention_enabled: bool
    retention_seconds: DecadeSeconds
    completed_retention_seconds: DecadeSeconds
    dead_letter_retention_seconds: DecadeSeconds
    dedup_window_seconds: Annotated[int, Meta(ge=0, le=2_592_000)]
    encryption_enabled: bool
    dead_letter_enabled: bool


class SettingsShown(QueueSettings, frozen=True, kw_only=True, rename={"dead_letter_enabled_too": SECOND_NAME}):
    """A queue as it is configured; over HTTP, one setting has two names."""

    dead_letter_enabled_too: bool = False


if TYPE_CHECKING:
    Changes = Any
else:
    Changes = msgspec.defstruct(
        "Changes",
        [(field.name, field.type | UnsetType, UNSET) for field in fields(SettingsShown)],
        rename={field.name: field.encode_name for field in fields(SettingsShown)},
        namespace={"__doc__": "Settings of a queue that are to change."},
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
        omit_defaults=True,
    )


class MessageTotals(
    Struct,
    frozen=True,
    kw_only=True,
    rename={"stored": "total", "retrying": "failed", "dead_letters": "deadLetter"},
):
    """Messages: `stored` = `pending` + `processing` + `completed`; the `retrying` ones have failed and are pending."""

    stored: int
    pending: int
    processing: int
    completed: int
    retrying: int
    dead_letters: int = 0


class Queue(Struct, frozen=True, kw_only=True, rename="camel"):
    """A queue and what it holds, as of the moment when it was counted."""

    id: str
    name: str
    namespace: str
    task: str
    priority: int
    created_at: datetime
    paused: bool
    partitions: int
    messages: MessageTotals
    counted_at: datetime | None


class QueueList(Struct, frozen=True, kw_only=True):
    """A page of queues, and how many there are on all pages."""

    queues: list[Queue]
    total: int


class PartitionTotals(Struct, frozen=True, kw_only=True, rename={"stored": "total", "retrying": "failed"}):
    """Messages of a partition, as in the totals of a queue."""

    stored: int
    pending: int
    processing: int
    completed: int
    retrying: int


class Partition(Struct, frozen=True, kw_only=True, rename="camel"):
    """A partition and what it holds."""

    id: str
    name: str
    queue: str
    created_at: datetime
    last_message_at: datetime | None
    pushed: int
    messages: PartitionTotals


class PartitionPage(Struct, frozen=True, kw_only=True, rename={"cursor": "nextCursor"}):
    """Some partitions. The cursor of the next page is null on the last one."""

    partitions: list[Partition]
    cursor: str | None


class QueueDescription(
    Struct,
    frozen=True,
    kw_only=True,
    rename={
        "created_at": "createdAt",
        "settings": "options",
        "messages": "totals",
        "counted_at": "countedAt",
        "partitions": "partitionCount",
        "partition_page": "partitions",
        "cursor": "nextCursor",
    },
):
    """A queue with its settings, what it holds, and a page of its partitions."""

    id: str
    name: str
    namespace: str
    task: str
    created_at: datetime
    paused: bool
    settings: SettingsShown
    messages: MessageTotals
    counted_at: datetime | None
    partitions: int
    partition_page: list[Partition]
    cursor: str | None


class PartitionBacklog(Struct, frozen=True, kw_only=True):
    """What is left to do in a partition: messages that are neither finished nor leased."""

    partition: str
    pending: int


class Backlog(Struct, frozen=True, kw_only=True, rename="camel"):
    """How much of a queue is left to do, in all and in the fullest partitions. Leased messages are not pending."""

    queue: str
    group: str | None
    pending: int
    partitions_pending: int
    conflation: bool
    effective_pending: int
    partitions: list[PartitionBacklog]


class Label(Struct, frozen=True, kw_only=True):
    """A namespace or a task: how many queues it has, and what these hold."""

    name: str
    queues: int
    partitions: int
    messages: MessageTotals


class NamespaceList(Struct, frozen=True):
    """All namespaces."""

    namespaces: list[Label]


class TaskList(Struct, frozen=True):
    """All tasks."""

    tasks: list[Label]


class QueueConfigured(Struct, frozen=True, kw_only=True, rename={"queue_id": "queueId", "partition_id": "partitionId",
                                                                "settings": "options"}):  # fmt: skip
    """The queue as it is now, and the id of its default partition."""

    configured: bool
    queue: str
    namespace: str
    task: str
    queue_id: str
    partition_id: str
    settings: SettingsShown


class QueueDeleted(Struct, frozen=True, kw_only=True):
    """The queue is not there any more; `existed`: it was before."""

    deleted: bool
    existed: bool
    queue: str


class QueueCleared(Struct, frozen=True, kw_only=True):
    """How many messages were deleted."""

    cleared: bool
    queue: str
    messages: int


class DeliverySwitch(Struct, frozen=True, kw_only=True, rename={"group": "consumerGroup"}):
    """Whether deliveries of a queue, or of one group on it, are paused now; `changed`: they were not before."""

    queue: str
    group: str | None
    paused: bool
    changed: bool


class Configure(Call[QueueConfigured], frozen=True):
    """Create a queue, or change the settings that are named."""

    endpoints = (Endpoint("POST", "/api/v1/configure", "read-write", refusals={"options": InvalidSetting}),)
    queue: str
    options: Changes | None = None
    namespace: str | None = None
    task: str | None = None


class ListQueues(Call[QueueList], frozen=True, kw_only=True, rename={"skip": "offset"}):
    """List queues by name, with what they hold."""

    endpoints = (
        Endpoint("GET", "/api/v1/resources/queues", "read-only"),
        Endpoint("GET", "/api/v1/status/queues", "read-only"),
    )
    namespace: Annotated[str | None, Meta(description="only queues of this namespace")] = None
    task: Annotated[str | None, Meta(description="only queues of this task")] = None
    search: Annotated[str | None, Meta(description="only queues whose name contains this, in any case")] = None
    limit: Limit = 100
    skip: Skip = 0


class DescribeQueue(Call[QueueDescription], frozen=True):
    """Describe a queue: its settings, what it holds, and its partitions page by page."""

    endpoints = (Endpoint("GET", "/api/v1/resources/queues/{queue}", "read-only"),)
    queue: str
    limit: Limit = 100
    cursor: Cursor = None


class DeleteQueue(Call[QueueDeleted], frozen=True):
    """Remove a queue with everything in it."""

    endpoints = (Endpoint("DELETE", "/api/v1/resources/queues/{queue}", "admin"),)
    repeatable = False
    queue: str


class ClearQueue(Call[QueueCleared], frozen=True):
    """Delete all stored messages of a queue; its partitions and groups stay."""

    endpoints = (Endpoint("DELETE", "/api/v1/queues/{queue}/clear", "admin"),)
    repeatable = False
    queue: str


class Pause(Call[DeliverySwitch], frozen=True, rename={"group": "consumerGroup"}):
    """Deliver nothing more from a queue, or from it to one group, until it is resumed; pushes go on."""

    endpoints = (
        Endpoint("POST", "/api/v1/consumer-groups/{group}/queues/{queue}/pause", "admin"),
        Endpoint("POST", "/api/v1/queues/{queue}/pause", "admin"),
    )
    queue: str
    group: str | None = None


class Resume(Call[DeliverySwitch], frozen=True, rename={"group": "consumerGroup"}):
    """Deliver again from a queue, or from it to one group. A queue and each of its groups are resumed on their own."""

    endpoints = (
        Endpoint("POST", "/api/v1/consumer-groups/{group}/queues/{queue}/resume", "admin"),
        Endpoint("POST", "/api/v1/queues/{queue}/resume", "admin"),
    )
    queue: str
    group: str | None = None


class GetBacklog(Call[Backlog], frozen=True):
    """Tell how much of a queue is left to do, and in which partitions."""

    endpoints = (Endpoint("GET", "/api/v1/resources/queues/{queue}/depth", "read-only"),)
    queue: str
    group: Annotated[str | None, Meta(description="the group that is meant; without it, the slowest")] = None
    limit: LongLimit = 100


class ListPartitions(Call[PartitionPage], frozen=True):
    """List partitions in the order in which they were created, with what they hold."""

    endpoints = (Endpoint("GET", "/api/v1/resources/partitions", "read-only"),)
    queue: Annotated[str | None, Meta(description="only partitions of this queue")] = None
    cursor: Cursor = None
    limit: Limit = 100


class ListNamespaces(Call[NamespaceList], frozen=True):
    """List the namespaces of all queues."""

    endpoints = (Endpoint("GET", "/api/v1/resources/namespaces", "read-only"),)
    limit: Limit = 1_000


class ListTasks(Call[TaskList], frozen=True):
    """List the tasks of all queues."""

    endpoints = (Endpoint("GET", "/api/v1/resources/tasks", "read-only"),)
    limit: Limit = 1_000
