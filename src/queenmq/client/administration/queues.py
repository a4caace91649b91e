"""Queues and their partitions: configure, look, clear, delete."""

from collections.abc import Mapping
from datetime import datetime
from typing import TypedDict

from msgspec import Struct

from queenmq.client.calls import Call

OPTION_NAMES = {
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
}
TOTAL_NAMES = {"stored": "total", "retrying": "failed", "dead_letters": "deadLetter"}


class QueueOptions(TypedDict, total=False):
    """What can be set of a queue; docs/queues.md tells what each one does."""

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


class QueueSettings(Struct, frozen=True, kw_only=True, rename=OPTION_NAMES):
    """A queue as it is configured."""

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


class Totals(Struct, frozen=True, kw_only=True, rename=TOTAL_NAMES):
    """Messages: `stored` = `pending` + `processing` + `completed`; the `retrying` ones have failed and are pending."""

    stored: int
    pending: int
    processing: int
    completed: int
    retrying: int
    dead_letters: int = 0


class Queue(Struct, frozen=True, kw_only=True, rename="camel"):
    """A queue and what it holds, as of `counted_at`."""

    name: str
    namespace: str
    task: str
    priority: int
    created_at: datetime
    partitions: int
    messages: Totals
    counted_at: datetime | None


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
    },
):
    """A queue with its settings and what it holds."""

    name: str
    namespace: str
    task: str
    created_at: datetime
    settings: QueueSettings
    messages: Totals
    counted_at: datetime | None
    partitions: int


class Partition(Struct, frozen=True, kw_only=True, rename="camel"):
    """A partition and what it holds."""

    id: str
    name: str
    queue: str
    created_at: datetime
    last_message_at: datetime | None
    pushed: int
    messages: Totals


class PartitionPage(Struct, frozen=True, kw_only=True, rename={"cursor": "nextCursor"}):
    """Some partitions; `cursor` gives the next ones, None on the last page."""

    partitions: list[Partition]
    cursor: str | None


class PartitionBacklog(Struct, frozen=True, kw_only=True):
    """What is left to do in a partition: messages that are neither finished nor leased."""

    partition: str
    pending: int


class Backlog(Struct, frozen=True, kw_only=True, rename="camel"):
    """How much of a queue is left to do, in all and in the fullest partitions.

    As in `Totals`, leased messages are not pending.
    """

    pending: int
    partitions_pending: int
    partitions: list[PartitionBacklog]


class Label(Struct, frozen=True, kw_only=True):
    """A namespace or a task: how many queues it has, and what these hold."""

    name: str
    queues: int
    partitions: int
    messages: Totals


class Configure(Call[QueueSettings], frozen=True):
    """Create a queue, or change what is named of it."""

    queue: str
    options: Mapping[str, object]
    namespace: str | None = None
    task: str | None = None


class ListQueues(Call[list[Queue]], frozen=True, kw_only=True):
    """Queues by name, with what they hold."""

    namespace: str | None
    task: str | None
    search: str | None
    limit: int
    skip: int


class DescribeQueue(Call[QueueDescription], frozen=True):
    """A queue with its settings. Raises QueueNotFound."""

    queue: str


class DeleteQueue(Call[bool], frozen=True):
    """Remove a queue and all that is in it; False when there was none."""

    queue: str


class ClearQueue(Call[int], frozen=True):
    """Drop all stored messages of a queue; answers how many. Raises QueueNotFound."""

    queue: str


class GetBacklog(Call[Backlog], frozen=True):
    """How much of a queue is left to do, for a group or for the slowest one."""

    queue: str
    group: str | None
    limit: int


class ListPartitions(Call[PartitionPage], frozen=True):
    """Partitions in the order in which they were made, of one queue or of all."""

    queue: str | None
    cursor: str | None
    limit: int


class ListNamespaces(Call[list[Label]], frozen=True):
    """The namespaces of all queues."""


class ListTasks(Call[list[Label]], frozen=True):
    """The tasks of all queues."""
