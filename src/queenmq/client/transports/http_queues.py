"""Queues, groups and the installation as HTTP."""

from datetime import datetime

import msgspec
from msgspec import Struct

from queenmq.client.administration import groups, queues, system
from queenmq.client.transports.exchange import Exchange, ExchangeTable, path, query, reads

encode = msgspec.json.Encoder().encode


class _Configured(Struct):
    options: queues.QueueSettings


class _Queues(Struct):
    queues: list[queues.Queue]


class _Deleted(Struct):
    existed: bool


class _Cleared(Struct):
    messages: int


class _Namespaces(Struct):
    namespaces: list[queues.Label]


class _Tasks(Struct):
    tasks: list[queues.Label]


class _Place(Struct, rename="camel"):
    partition: str
    offset_lag: int
    time_lag_seconds: float
    worker_id: str | None
    last_consumed_at: datetime | None
    total_consumed: int


class _Places(Struct):
    partitions: list[_Place]


class _Moved(Struct, rename="camel"):
    partitions_updated: int


class _Subscribed(Struct, rename="camel"):
    subscriptions_updated: int


class _Forgotten(Struct, rename="camel"):
    queues_deleted: int


class _Health(Struct):
    version: str


class _Analytics(Struct):
    throughput: list[system.TrafficStep]


class _Switch(Struct):
    enabled: bool


def _group_places(answer: dict[str, _Places]) -> list[groups.GroupPlace]:
    return [
        groups.GroupPlace(
            queue=queue,
            partition=each.partition,
            lag_messages=each.offset_lag,
            lag_seconds=each.time_lag_seconds,
            lease_id=each.worker_id,
            last_served_at=each.last_consumed_at,
            completed=each.total_consumed,
        )
        for queue, places in answer.items()
        for each in places.partitions
    ]


_configured = reads(_Configured, lambda answer: answer.options)
_queues = reads(_Queues, lambda answer: answer.queues)
_deleted = reads(_Deleted, lambda answer: answer.existed)
_cleared = reads(_Cleared, lambda answer: answer.messages)
_namespaces = reads(_Namespaces, lambda answer: answer.namespaces)
_tasks = reads(_Tasks, lambda answer: answer.tasks)
_places = reads(dict[str, _Places], _group_places)
_moved = reads(_Moved, lambda answer: answer.partitions_updated)
_subscribed = reads(_Subscribed, lambda answer: answer.subscriptions_updated)
_forgotten = reads(_Forgotten, lambda answer: answer.queues_deleted)
_version = reads(_Health, lambda answer: answer.version)
_traffic = reads(_Analytics, lambda answer: answer.throughput)
_enabled = reads(_Switch, lambda answer: answer.enabled)
_description = msgspec.json.Decoder(queues.QueueDescription).decode
_partitions = msgspec.json.Decoder(queues.PartitionPage).decode
_backlog = msgspec.json.Decoder(queues.Backlog).decode
_groups = msgspec.json.Decoder(list[groups.Group]).decode
_overview = msgspec.json.Decoder(system.Overview).decode
_postgres = msgspec.json.Decoder(system.Postgres).decode
_maintenance = msgspec.json.Decoder(system.Maintenance).decode


# -- queues


def configure(call: queues.Configure) -> Exchange[queues.QueueSettings]:
    """POST /configure."""
    options = {queues.OPTION_NAMES.get(name, name): value for name, value in call.options.items()}
    body = {"queue": call.queue, "namespace": call.namespace, "task": call.task, "options": options}
    return Exchange(path=path("configure"), method="POST", body=encode(body), repeatable=True, read=_configured)


def list_queues(call: queues.ListQueues) -> Exchange[list[queues.Queue]]:
    """GET /resources/queues."""
    asked = query(
        namespace=call.namespace, task=call.task, search=call.search, limit=call.limit, offset=call.skip
    )  # fmt: skip
    return Exchange(path=path("resources", "queues"), query=asked, repeatable=True, read=_queues)


def describe_queue(call: queues.DescribeQueue) -> Exchange[queues.QueueDescription]:
    """GET /resources/queues/{queue}."""
    return Exchange(
        path=path("resources", "queues", call.queue), query=query(limit=1), repeatable=True, read=_description
    )


def delete_queue(call: queues.DeleteQueue) -> Exchange[bool]:
    """DELETE /resources/queues/{queue}."""
    return Exchange(path=path("resources", "queues", call.queue), method="DELETE", read=_deleted)


def clear_queue(call: queues.ClearQueue) -> Exchange[int]:
    """DELETE /queues/{queue}/clear."""
    return Exchange(path=path("queues", call.queue, "clear"), method="DELETE", read=_cleared)


def get_backlog(call: queues.GetBacklog) -> Exchange[queues.Backlog]:
    """GET /resources/queues/{queue}/depth."""
    asked = query(group=call.group, limit=call.limit)
    return Exchange(path=path("resources", "queues", call.queue, "depth"), query=asked, repeatable=True, read=_backlog)


def list_partitions(call: queues.ListPartitions) -> Exchange[queues.PartitionPage]:
    """GET /resources/partitions."""
    asked = query(queue=call.queue, cursor=call.cursor, limit=call.limit)
    return Exchange(path=path("resources", "partitions"), query=asked, repeatable=True, read=_partitions)


def list_namespaces(_call: queues.ListNamespaces) -> Exchange[list[queues.Label]]:
    """GET /resources/namespaces."""
    return Exchange(path=path("resources", "namespaces"), repeatable=True, read=_namespaces)


def list_tasks(_call: queues.ListTasks) -> Exchange[list[queues.Label]]:
    """GET /resources/tasks."""
    return Exchange(path=path("resources", "tasks"), repeatable=True, read=_tasks)


# -- groups


def list_groups(call: groups.ListGroups) -> Exchange[list[groups.Group]]:
    """GET /consumer-groups/lagging."""
    asked = query(minLagSeconds=call.lag_seconds_min)
    return Exchange(path=path("consumer-groups", "lagging"), query=asked, repeatable=True, read=_groups)


def describe_group(call: groups.DescribeGroup) -> Exchange[list[groups.GroupPlace]]:
    """GET /consumer-groups/{group}."""
    asked = query(limit=call.limit)
    return Exchange(path=path("consumer-groups", call.group), query=asked, repeatable=True, read=_places)


def seek(call: groups.Seek) -> Exchange[int]:
    """POST /consumer-groups/{group}/queues/{queue}[/partitions/{partition}]/seek."""
    parts = ["consumer-groups", call.group, "queues", call.queue]
    parts += [] if call.partition is None else ["partitions", call.partition]
    body = {
        "toEnd": call.to == "end",
        "toBeginning": call.to == "beginning",
        "timestamp": call.timestamp,
        "offset": call.offset,
    }
    return Exchange(path=path(*parts, "seek"), method="POST", body=encode(body), repeatable=True, read=_moved)


def set_subscription(call: groups.SetSubscription) -> Exchange[int]:
    """POST /consumer-groups/{group}/subscription."""
    return Exchange(
        path=path("consumer-groups", call.group, "subscription"),
        method="POST",
        body=encode({"subscriptionTimestamp": call.since}),
        repeatable=True,
        read=_subscribed,
    )


def delete_group(call: groups.DeleteGroup) -> Exchange[int]:
    """DELETE /consumer-groups/{group}[/queues/{queue}]."""
    parts = ["consumer-groups", call.group] + ([] if call.queue is None else ["queues", call.queue])
    asked = query(deleteMetadata=call.with_subscription)
    return Exchange(path=path(*parts), method="DELETE", query=asked, read=_forgotten)


# -- the installation


def ping(_call: system.Ping) -> Exchange[None]:
    """GET /ready."""
    return Exchange(path="/ready", read=lambda _: None)


def get_version(_call: system.GetVersion) -> Exchange[str]:
    """GET /health."""
    return Exchange(path="/health", repeatable=True, read=_version)


def get_overview(_call: system.GetOverview) -> Exchange[system.Overview]:
    """GET /resources/overview."""
    return Exchange(path=path("resources", "overview"), repeatable=True, read=_overview)


def get_traffic(call: system.GetTraffic) -> Exchange[list[system.TrafficStep]]:
    """GET /status/analytics."""
    period = {"from": call.since, "to": call.until}
    asked = query(interval=call.interval, queue=call.queue, namespace=call.namespace, task=call.task, **period)
    return Exchange(path=path("status", "analytics"), query=asked, repeatable=True, read=_traffic)


def refresh_statistics(_call: system.RefreshStatistics) -> Exchange[None]:
    """POST /stats/refresh."""
    return Exchange(path=path("stats", "refresh"), method="POST", repeatable=True, read=lambda _: None)


def get_postgres(_call: system.GetPostgres) -> Exchange[system.Postgres]:
    """GET /analytics/postgres-stats."""
    return Exchange(path=path("analytics", "postgres-stats"), repeatable=True, read=_postgres)


def get_maintenance(_call: system.GetMaintenance) -> Exchange[system.Maintenance]:
    """GET /system/maintenance."""
    return Exchange(path=path("system", "maintenance"), repeatable=True, read=_maintenance)


def set_maintenance(call: system.SetMaintenance) -> Exchange[system.Maintenance]:
    """POST /system/maintenance."""
    body = encode({"enabled": call.enabled})
    return Exchange(path=path("system", "maintenance"), method="POST", body=body, repeatable=True, read=_maintenance)


def get_pop_maintenance(_call: system.GetPopMaintenance) -> Exchange[bool]:
    """GET /system/maintenance/pop."""
    return Exchange(path=path("system", "maintenance", "pop"), repeatable=True, read=_enabled)


def set_pop_maintenance(call: system.SetPopMaintenance) -> Exchange[bool]:
    """POST /system/maintenance/pop."""
    body = encode({"enabled": call.enabled})
    return Exchange(path=path("system", "maintenance", "pop"), method="POST", body=body, repeatable=True, read=_enabled)


QUEUES: ExchangeTable = {
    queues.Configure: configure,
    queues.ListQueues: list_queues,
    queues.DescribeQueue: describe_queue,
    queues.DeleteQueue: delete_queue,
    queues.ClearQueue: clear_queue,
    queues.GetBacklog: get_backlog,
    queues.ListPartitions: list_partitions,
    queues.ListNamespaces: list_namespaces,
    queues.ListTasks: list_tasks,
    groups.ListGroups: list_groups,
    groups.DescribeGroup: describe_group,
    groups.Seek: seek,
    groups.SetSubscription: set_subscription,
    groups.DeleteGroup: delete_group,
    system.Ping: ping,
    system.GetVersion: get_version,
    system.GetOverview: get_overview,
    system.GetTraffic: get_traffic,
    system.RefreshStatistics: refresh_statistics,
    system.GetPostgres: get_postgres,
    system.GetMaintenance: get_maintenance,
    system.SetMaintenance: set_maintenance,
    system.GetPopMaintenance: get_pop_maintenance,
    system.SetPopMaintenance: set_pop_maintenance,
}
