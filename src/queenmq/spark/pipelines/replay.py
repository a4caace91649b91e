"""replay: push a slice of history again, into a queue of your choice, in its partitions and in its order.

Every message gets the transaction id `replay:<label>:<message id>`: a replay that was interrupted is simply started
again, and what is there already (within the queue's window for duplicates) is not pushed twice.
"""

import asyncio
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice
from time import monotonic, sleep
from typing import Any
from uuid import UUID

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from queenmq.config import Settings
from queenmq.engine import Engine
from queenmq.errors import InvalidArgument
from queenmq.model import Outgoing
from queenmq.spark.pipelines.history import chosen, messages
from queenmq.spark.pipelines.job import Job, kept
from queenmq.spark.pipelines.report import Report, Table

BATCH = 500  # messages that are pushed together
SHOWN = 20  # partitions in a report
NEEDED = ("partition", "message_id", "trace_id", "producer", "headers", "payload")


def replay(  # noqa: PLR0913 (each is an option)
    job: Job,
    *,
    queue: str,
    to: str,
    archive: str | None = None,
    where: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    trace: str | None = None,
    rate: float | None = None,
    label: str = "1",
    plaintext: bool = False,
) -> Report:
    """Push the messages that match to the queue `to`, at most `rate` a second; another label is another replay."""
    if rate is not None and rate <= 0:
        raise InvalidArgument("a rate is a number of messages a second, above 0")
    if not label or len(label) > 100:
        raise InvalidArgument("a label has 1 to 100 characters")
    if not plaintext and not job.is_encrypted(to):
        job.refuse_plaintext(queue, f'queue "{to}"')
    rows = chosen(messages(job, queue, archive), where, since, until, trace)
    facts: dict[str, Any] = {"from": queue, "to": to, "dry_run": job.dry_run}
    with kept(rows.select("created_at", "partition_id", "offset", *NEEDED)) as rows:
        counted = rows.groupBy("partition").count().orderBy(sf.desc("count"), "partition").collect()
        total = facts["matching"] = sum(row["count"] for row in counted)
        if not job.dry_run:
            facts["pushed"] = _push(job, rows, to, label, total, rate)
            facts["there already"] = total - facts["pushed"]
    partitions = Table.of(("partition", "messages"), counted[:SHOWN])
    return Report("replay", facts.get("pushed", 0), facts, {"partitions": partitions})


def _push(job: Job, rows: DataFrame, to: str, label: str, total: int, rate: float | None) -> int:
    """Push in the order of time, which is that of offsets inside a partition; answers how many were new."""
    ordered = rows.orderBy("created_at", "partition_id", "offset").toLocalIterator()
    size = BATCH if rate is None else max(1, min(BATCH, int(rate)))
    begun, seen, new = monotonic(), 0, 0
    with asyncio.Runner() as runner:
        engine = Engine(job.dsn, Settings.load(upkeep=False))
        runner.run(engine.open())
        try:
            for batch in _batches((_outgoing(row, to, label) for row in ordered), size):
                if rate is not None:
                    sleep(max(0.0, begun + seen / rate - monotonic()))
                new += sum(not pushed.duplicate for pushed in runner.run(engine.push(batch)))
                seen += len(batch)
                job.tell(f"replay to {to}", seen, total)
        finally:
            runner.run(engine.close())
    return new


def _outgoing(row: Any, to: str, label: str) -> Outgoing:
    return Outgoing(
        to,
        row.payload.encode(),
        row.partition,
        transaction_id=f"replay:{label}:{row.message_id}",
        trace_id=UUID(row.trace_id) if row.trace_id else None,
        producer=row.producer,
        headers=row.headers or None,
    )


def _batches(found: Iterable[Outgoing], size: int) -> Iterator[list[Outgoing]]:
    iterator = iter(found)
    while batch := list(islice(iterator, size)):
        yield batch
