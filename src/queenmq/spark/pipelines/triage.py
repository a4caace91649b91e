"""dlq-triage: dead letters by what they have in common, and which of them are worth another try."""

import re
from collections.abc import Sequence
from typing import Any

from pyspark.sql import functions as sf

from queenmq.spark.pipelines.job import Job
from queenmq.spark.pipelines.report import Report, Table
from queenmq.spark.pipelines.stats import QUEUES

SHOWN = 50
SAMPLE_CHARACTERS = 200

# What differs between two errors of one kind.
UUIDS = "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
QUOTED = "'[^']*'|\"[^\"]*\""
NUMBERS = r"\d+(\.\d+)?"

NUMERIC = r"DECIMAL\(\d+,\d+\)|BIGINT|DOUBLE"  # 1, 1.5 and 1e9 are of different types, and of one shape

AWAY = r"time[d\s-]*out|unavailable|connection.*(refused|reset|lost)|deadlock|temporar|\b50[0234]\b"
BUSY = r"too many|rate.?limit|throttl|\b429\b"
PAYLOAD = r"missing|invalid|required|malformed|key.?error|type.?error|value.?error|decod|pars|schema|validat"
WORLD = r"exist|not found|duplicate|conflict"

SUGGESTIONS = (  # what the error says, and what to do: the first that matches
    (f"(?i){AWAY}|{BUSY}", "redrive: the cause was outside the message"),
    (f"(?i){PAYLOAD}", "fix first: the consumer does not take this payload"),
    (f"(?i){WORLD}", "look: the world is not as the message supposes"),
)
HIDDEN = "(cannot be decrypted)"
OTHERWISE = "look: nothing is known about this error"


def triage(job: Job, *, queues: Sequence[str] = ()) -> Report:
    """Group dead letters by queue, group, error and shape of the payload; the largest groups first.

    Payloads for which this process has no key have no shape and no sample; they are counted.
    """
    names = list(queues) or [row["name"] for row in job.connection.rows(QUEUES)]
    for name in names:
        job.queue_id(name)
    if not names or job.dry_run:
        count = (
            "select count(*) from queen.dead_letters d join queen.queues q on q.id = d.queue_id where q.name = any ($1)"
        )
        return Report("dlq-triage", 0, {"queues": names, "dead_letters": job.connection.value(count, names)})
    options = {"includeDeadLetters": "true", "startingOffsets": "latest", "undecryptable": "null"}
    letters = job.read(",".join(names), **options).where("group is not null")
    grouped = (
        letters.withColumn("kind", _kind())
        .withColumn("shape", _shape())
        .groupBy("queue", "group", "kind", "shape")
        .agg(
            sf.count("*").alias("letters"), sf.count_if(sf.isnull("payload")).alias("hidden"),
            sf.avg("retry_count").alias("retries"),
            sf.min("failed_at").cast("string").alias("first"), sf.max("failed_at").cast("string").alias("last"),
            sf.min_by("transaction_id", "failed_at").alias("transaction_id"),
            sf.coalesce(sf.min_by("error", "failed_at"), sf.lit("")).alias("error"),
            sf.min_by(sf.coalesce(sf.substring("payload", 1, SAMPLE_CHARACTERS), sf.lit(HIDDEN)), "failed_at")
            .alias("sample"),
        )
        .orderBy(sf.desc("letters"), "queue", "kind")
        .limit(SHOWN)
    )  # fmt: skip
    found = [row.asDict() for row in grouped.collect()]
    total = sum(row["letters"] for row in found)
    job.tell("dlq-triage", total, total)
    columns = ("queue", "group", "letters", "error", "payload", "retries", "first", "last", "suggestion")
    return Report(
        "dlq-triage",
        total,
        {
            "queues": names,
            "dead_letters": total,
            "worth a redrive": sum(_redrivable(row) for row in found),
            "not decrypted": sum(row["hidden"] for row in found),
        },
        {
            "kinds": Table.of(columns, (_line(row) for row in found)),
            "samples": Table.of(
                ("error", "transaction_id", "payload"),
                ((row["error"], row["transaction_id"], row["sample"]) for row in found),
            ),
        },
    )


def suggest(error: str) -> str:
    """What to do about an error, judged by its words."""
    return next((what for pattern, what in SUGGESTIONS if re.search(pattern, error)), OTHERWISE)


def _kind() -> Any:
    """An error without what is different each time."""
    kind = sf.coalesce("error", sf.lit("(no error was given)"))
    for pattern, name in ((UUIDS, "<id>"), (QUOTED, "<text>"), (NUMBERS, "<n>")):
        kind = sf.regexp_replace(kind, pattern, name)
    return kind


def _shape() -> Any:
    """What a payload looks like, as far as this process can read it."""
    shape = sf.regexp_replace(sf.schema_of_variant(sf.try_parse_json("payload")), NUMERIC, "NUMBER")
    return sf.when(sf.col("payload").isNull(), sf.lit(HIDDEN)).otherwise(shape)


def _redrivable(row: dict[str, Any]) -> int:
    return row["letters"] if suggest(row["error"]).startswith("redrive") else 0


def _line(row: dict[str, Any]) -> tuple[Any, ...]:
    return (
        row["queue"], row["group"], row["letters"], row["kind"], row["shape"], row["retries"],
        row["first"], row["last"], suggest(row["error"]),
    )  # fmt: skip
