"""Queues and their partitions."""

from collections.abc import Sequence

import msgspec
from msgspec import UNSET
from msgspec.structs import fields

from queenmq.api import queues
from queenmq.engine.statistics import PartitionTotals, Totals
from queenmq.errors import InvalidSetting
from queenmq.model import QueueSettings
from queenmq.service.host import Host
from queenmq.service.ids import id_text, partition_number

SECOND_FIELD = "dead_letter_enabled_too"


async def configure(host: Host, call: queues.Configure) -> queues.QueueConfigured:
    """Call queen.configure_queue; a queue is not without its default partition."""
    found = await host.engine.admin.configure_queue(
        call.queue, namespace=call.namespace, task=call.task, **_changes(call)
    )
    partition_id = await host.engine.admin.default_partition(call.queue)
    return queues.QueueConfigured(
        configured=True,
        queue=found.name,
        namespace=found.namespace,
        task=found.task,
        queue_id=id_text(found.id),
        partition_id=id_text(partition_id),
        settings=_settings(found),
    )


async def list_queues(host: Host, call: queues.ListQueues) -> queues.QueueList:
    """Call queen.queue_totals for a page of queues."""
    found, total = await host.engine.statistics.queues(
        namespace=call.namespace, task=call.task, search=call.search, limit=call.limit, offset=call.skip
    )
    return queues.QueueList(queues=[_queue(settings, totals) for settings, totals in found], total=total)


async def describe_queue(host: Host, call: queues.DescribeQueue) -> queues.QueueDescription:
    """Call queen.queue_totals for one queue."""
    settings, totals = await host.engine.statistics.queue(call.queue)
    page = await _partition_page(host, settings.id, call.cursor, call.limit)
    return queues.QueueDescription(
        id=id_text(settings.id),
        name=settings.name,
        namespace=settings.namespace,
        task=settings.task,
        created_at=settings.created_at,
        paused=settings.paused,
        settings=_settings(settings),
        messages=message_totals(totals),
        counted_at=totals.counted_at,
        partitions=totals.partitions,
        partition_page=page.partitions,
        cursor=page.cursor,
    )


async def delete_queue(host: Host, call: queues.DeleteQueue) -> queues.QueueDeleted:
    """Call queen.delete_queue."""
    existed = await host.engine.admin.delete_queue(call.queue)
    return queues.QueueDeleted(deleted=True, existed=existed, queue=call.queue)


async def clear_queue(host: Host, call: queues.ClearQueue) -> queues.QueueCleared:
    """Call queen.clear_queue."""
    messages = await host.engine.admin.clear_queue(call.queue)
    return queues.QueueCleared(cleared=True, queue=call.queue, messages=messages)


async def pause(host: Host, call: queues.Pause) -> queues.DeliverySwitch:
    """Call queen.pause."""
    changed = await host.engine.admin.set_paused(call.queue, call.group, paused=True)
    return queues.DeliverySwitch(queue=call.queue, group=call.group, paused=True, changed=changed)


async def resume(host: Host, call: queues.Resume) -> queues.DeliverySwitch:
    """Call queen.resume."""
    changed = await host.engine.admin.set_paused(call.queue, call.group, paused=False)
    return queues.DeliverySwitch(queue=call.queue, group=call.group, paused=False, changed=changed)


async def get_backlog(host: Host, call: queues.GetBacklog) -> queues.Backlog:
    """Call queen.pending_partitions."""
    found = await host.engine.statistics.pending(call.queue, call.group, call.limit)
    pending = found[0].pending_total if found else 0
    return queues.Backlog(
        queue=call.queue,
        group=call.group,
        pending=pending,
        partitions_pending=found[0].partitions_pending if found else 0,
        conflation=False,
        effective_pending=pending,
        partitions=[queues.PartitionBacklog(partition=each.partition, pending=each.pending) for each in found],
    )


async def list_partitions(host: Host, call: queues.ListPartitions) -> queues.PartitionPage:
    """Read queen.partition_totals."""
    queue_id = None if call.queue is None else (await host.engine.admin.queue(call.queue)).id
    return await _partition_page(host, queue_id, call.cursor, call.limit)


async def list_namespaces(host: Host, call: queues.ListNamespaces) -> queues.NamespaceList:
    """Call queen.queue_totals for the queues of each namespace."""
    return queues.NamespaceList(_labels(await host.engine.statistics.namespaces(call.limit)))


async def list_tasks(host: Host, call: queues.ListTasks) -> queues.TaskList:
    """Call queen.queue_totals for the queues of each task."""
    return queues.TaskList(_labels(await host.engine.statistics.tasks(call.limit)))


def _changes(call: queues.Configure) -> dict[str, object]:
    """What is to change, by the names of the settings. Two names of one setting must not contradict each other."""
    given = {} if call.options is None else msgspec.structs.asdict(call.options)
    changes = {name: value for name, value in given.items() if value is not UNSET}
    if SECOND_FIELD in changes:
        second = changes.pop(SECOND_FIELD)
        if changes.setdefault("dead_letter_enabled", second) != second:
            first_name, second_name = queues.SETTING_NAMES["dead_letter_enabled"], queues.SECOND_NAME
            raise InvalidSetting(f"{first_name} and {second_name} are the same setting, with different values")
    return changes


def _settings(found: QueueSettings) -> queues.SettingsShown:
    shared = {field.name: getattr(found, field.name) for field in fields(queues.QueueSettings)}
    return queues.SettingsShown(**shared, dead_letter_enabled_too=found.dead_letter_enabled)


def _queue(settings: QueueSettings, totals: Totals) -> queues.Queue:
    return queues.Queue(
        id=id_text(settings.id),
        name=settings.name,
        namespace=settings.namespace,
        task=settings.task,
        priority=settings.priority,
        created_at=settings.created_at,
        paused=settings.paused,
        partitions=totals.partitions,
        messages=message_totals(totals),
        counted_at=totals.counted_at,
    )


def message_totals(found: Totals) -> queues.MessageTotals:
    """What queues hold, with what every group has finished."""
    return queues.MessageTotals(
        stored=found.stored,
        pending=found.pending,
        processing=found.leased,
        completed=found.stored - found.pending - found.leased,
        retrying=found.retrying,
        dead_letters=found.dead_letters,
    )


async def _partition_page(host: Host, queue_id: int | None, cursor: str | None, limit: int) -> queues.PartitionPage:
    after_id = 0 if cursor is None else partition_number(cursor)
    found = await host.engine.statistics.partitions(queue_id, after_id, limit)
    return queues.PartitionPage(
        partitions=[_partition(each) for each in found],
        cursor=id_text(found[-1].partition_id) if len(found) == limit else None,
    )


def _partition(found: PartitionTotals) -> queues.Partition:
    return queues.Partition(
        id=id_text(found.partition_id),
        name=found.partition,
        queue=found.queue,
        created_at=found.created_at,
        last_message_at=found.last_message_at,
        pushed=found.pushed,
        messages=queues.PartitionTotals(
            stored=found.stored,
            pending=found.pending,
            processing=found.leased,
            completed=found.stored - found.pending - found.leased,
            retrying=found.retrying,
        ),
    )


def _labels(found: Sequence[tuple[str, int, Totals]]) -> list[queues.Label]:
    return [
        queues.Label(name=name, queues=count, partitions=totals.partitions, messages=message_totals(totals))
        for name, count, totals in found
    ]
