"""The broker's route table, and what routes work with. Read this first; `dispatch` has the way of a request to them."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from queenmq.broker import openapi
from queenmq.broker.delivered import RunTexts
from queenmq.broker.deliveries import Deliveries
from queenmq.broker.metrics import Metrics
from queenmq.broker.routes import (
    ack,
    dead_letters,
    diagnosis,
    groups,
    health,
    messages,
    partitions,
    pop,
    push,
    queues,
    reading,
    status,
    system,
    traces,
    transaction,
)
from queenmq.broker.routing import Route
from queenmq.broker.spool import Spool
from queenmq.config import Settings
from queenmq.diagnosis import Checkup, LedgerTotal, Reason, Unread, Verification
from queenmq.engine import Engine
from queenmq.engine.presence import Presence
from queenmq.engine.readiness import Readiness

ROUTES: Sequence[Route] = (
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
    Route(
        "GET",
        "/api/v1/traces/id/{trace}",
        traces.follow,
        "read-only",
        gives=traces.TraceSteps,
        query=traces.CURSOR_QUERY,
    ),
    Route(
        "GET",
        "/api/v1/traces/{partition_id}/{transaction}",
        traces.list_of_message,
        "read-only",
        gives=traces.MessageEvents,
        query=traces.CURSOR_QUERY,
    ),
    # -- maintenance
    Route("GET", "/api/v1/system/maintenance", system.maintenance, "read-only", gives=system.PushMaintenance),
    Route(
        "POST",
        "/api/v1/system/maintenance",
        system.set_maintenance,
        "admin",
        takes=system.Switch,
        gives=system.PushMaintenance,
    ),
    Route("GET", "/api/v1/system/maintenance/pop", system.pop_maintenance, "read-only", gives=system.PopMaintenance),
    Route(
        "POST",
        "/api/v1/system/maintenance/pop",
        system.set_pop_maintenance,
        "admin",
        takes=system.Switch,
        gives=system.PopMaintenance,
    ),
    # -- queues
    Route(
        "POST",
        "/api/v1/configure",
        queues.configure,
        "read-write",
        takes=queues.ConfigureBody,
        gives=queues.ConfigureAnswer,
    ),
    Route(
        "GET",
        "/api/v1/resources/queues",
        queues.list_queues,
        "read-only",
        gives=queues.QueueList,
        query=queues.LIST_QUERY,
    ),
    Route(
        "GET",
        "/api/v1/resources/queues/{queue}",
        queues.get_queue,
        "read-only",
        gives=queues.QueueDetail,
        query=partitions.PAGE_QUERY,
    ),
    Route("DELETE", "/api/v1/resources/queues/{queue}", queues.delete_queue, "admin", gives=queues.DeleteAnswer),
    Route("DELETE", "/api/v1/queues/{queue}/clear", queues.clear_queue, "admin", gives=queues.ClearAnswer),
    Route(
        "GET",
        "/api/v1/resources/queues/{queue}/depth",
        partitions.get_depth,
        "read-only",
        gives=partitions.DepthAnswer,
        query=partitions.DEPTH_QUERY,
    ),
    Route(
        "GET",
        "/api/v1/resources/partitions",
        partitions.list_partitions,
        "read-only",
        gives=partitions.PartitionList,
        query=partitions.PARTITIONS_QUERY,
    ),
    Route(
        "GET",
        "/api/v1/resources/namespaces",
        queues.list_namespaces,
        "read-only",
        gives=queues.NamespaceList,
        query=queues.LABELS_QUERY,
    ),
    Route(
        "GET",
        "/api/v1/resources/tasks",
        queues.list_tasks,
        "read-only",
        gives=queues.TaskList,
        query=queues.LABELS_QUERY,
    ),
    Route("GET", "/api/v1/resources/overview", status.overview, "read-only", gives=status.OverviewAnswer),
    # -- messages
    Route(
        "GET",
        "/api/v1/messages",
        messages.list_messages,
        "read-only",
        gives=messages.MessageList,
        query=messages.LIST_QUERY,
    ),
    Route(
        "GET",
        "/api/v1/messages/{partition}/{transaction}",
        messages.get_message,
        "read-only",
        gives=messages.MessageView,
        query=messages.GROUP_QUERY,
    ),
    Route(
        "DELETE",
        "/api/v1/messages/{partition}/{transaction}",
        messages.delete_message,
        "admin",
        gives=messages.DeleteMessageAnswer,
    ),
    Route(
        "POST",
        "/api/v1/messages/{partition}/{transaction}/retry",
        messages.retry_message,
        "admin",
        gives=messages.RetryMessageAnswer,
        query=messages.RETRY_QUERY,
    ),
    Route(
        "POST",
        "/api/v1/messages/{partition}/{transaction}/dlq",
        messages.give_up_message,
        "admin",
        takes=messages.GiveUpBody,
        gives=messages.GiveUpAnswer,
        query=messages.GROUP_QUERY,
    ),
    # -- dead letters
    Route(
        "GET",
        "/api/v1/dlq",
        dead_letters.list_dead_letters,
        "read-only",
        gives=dead_letters.DeadLetterList,
        query=dead_letters.LIST_QUERY,
    ),
    Route(
        "DELETE",
        "/api/v1/dlq",
        dead_letters.purge,
        "admin",
        gives=dead_letters.PurgeAnswer,
        query=dead_letters.PURGE_QUERY,
    ),
    Route(
        "POST",
        "/api/v1/dlq/redrive",
        dead_letters.redrive,
        "admin",
        takes=dead_letters.RedriveBody,
        gives=dead_letters.RedriveAnswer,
    ),
    # -- status
    Route("GET", "/api/v1/status", status.status, "read-only", gives=status.StatusAnswer, query=status.RANGE_QUERY),
    Route(
        "GET", "/api/v1/status/queues", queues.list_queues, "read-only", gives=queues.QueueList, query=queues.LIST_QUERY
    ),
    Route(
        "GET",
        "/api/v1/status/queues/{queue}",
        status.queue_status,
        "read-only",
        gives=status.QueueStatus,
        query=status.QUEUE_QUERY,
    ),
    Route(
        "GET",
        "/api/v1/status/queues/{queue}/messages",
        messages.list_messages,
        "read-only",
        gives=messages.MessageList,
        query=messages.PAGE_QUERY,
    ),
    Route(
        "GET",
        "/api/v1/status/analytics",
        status.analytics,
        "read-only",
        gives=status.AnalyticsAnswer,
        query=status.ANALYTICS_QUERY,
    ),
    Route("GET", "/api/v1/analytics/system-metrics", status.system_metrics, "read-only", gives=status.SystemMetrics),
    Route("GET", "/api/v1/analytics/worker-metrics", status.worker_metrics, "read-only", gives=status.WorkerMetrics),
    Route("GET", "/api/v1/analytics/postgres-stats", status.postgres_stats, "read-only", gives=status.PostgresAnswer),
    Route("POST", "/api/v1/stats/refresh", status.refresh, "admin", gives=status.RefreshAnswer),
    # -- what is wrong
    Route("GET", "/api/v1/why/{queue}", diagnosis.why, "read-only", gives=list[Reason], query=diagnosis.WHY_QUERY),
    Route(
        "GET", "/api/v1/ledger", diagnosis.ledger, "read-only", gives=list[LedgerTotal], query=diagnosis.LEDGER_QUERY
    ),
    Route("GET", "/api/v1/unread", diagnosis.unread, "read-only", gives=list[Unread]),
    Route("GET", "/api/v1/verify", diagnosis.verify, "admin", gives=Verification, query=diagnosis.LEDGER_QUERY),
    Route("GET", "/api/v1/doctor", diagnosis.doctor, "admin", gives=Checkup),
    # -- the server
    Route("GET", "/health", health.health, None, gives=health.Health),
    Route("GET", "/ready", health.ready, None, gives=health.ReadyAnswer),
    Route("GET", "/metrics", health.metrics, "read-only", gives=health.MetricsAnswer),
    Route("GET", "/metrics/prometheus", health.prometheus, "read-only"),
    Route("GET", "/openapi.json", openapi.openapi, None),
    Route("GET", "/docs", openapi.docs, None),
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
