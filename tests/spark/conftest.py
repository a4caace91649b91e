"""One Spark session for all tests, and queues to read and write."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import CaseInsensitiveDict, Filter
from pyspark.sql.types import StructType

from queenmq.config import Settings
from queenmq.engine import Engine
from queenmq.model import Outgoing
from queenmq.spark import QueenDataSource, session, workers
from tests.spark.jobs import job

__all__ = ["job"]  # a fixture

Frame = Callable[..., DataFrame]
Read = Callable[..., Any]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local session, started once."""
    started = session("local[2]", name="tests", config={"spark.sql.streaming.metricsEnabled": "false"})
    started.sparkContext.setLogLevel("OFF")
    yield started
    started.stop()


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Tests that read in this process are its tasks: the session that they leave is to no other database."""
    yield
    workers.leave()


@pytest.fixture
async def engine(database: str) -> AsyncIterator[Engine]:
    async with Engine(database, Settings.load({}, upkeep="false")) as opened:
        yield opened


@pytest.fixture
def push(engine: Engine) -> Callable[..., Any]:
    """Push values to a partition: `await push("orders", "ann", 1, 2)`."""

    async def push_values(queue: str, partition: str, *values: Any, **fields: Any) -> None:
        await engine.push([Outgoing(queue, json.dumps(value).encode(), partition, **fields) for value in values])

    return push_values


@pytest.fixture
def frame(spark: SparkSession, database: str) -> Frame:
    """`frame("orders", columns="offset")`: a batch read through Spark."""

    def load(queue: str, schema: str | None = None, **options: Any) -> DataFrame:
        reader = spark.read.format("queen").options(url=database, queue=queue, **options)
        return (reader.schema(schema) if schema else reader).load()

    return load


@pytest.fixture
def read(spark: SparkSession, database: str) -> Read:
    """`await read("orders", columns="offset")`: the same tasks, read here one after the other instead of by Spark."""

    def run(queue: str, filters: Sequence[Filter], options: dict[str, Any]) -> list[dict[str, Any]]:
        source = QueenDataSource(CaseInsensitiveDict({"url": database, "queue": queue, **options}))
        reader = source.reader(StructType.fromDDL(source.schema()))
        list(reader.pushFilters(list(filters)))
        return [row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()]

    async def load(queue: str, *filters: Filter, **options: Any) -> list[dict[str, Any]]:
        return await asyncio.to_thread(run, queue, filters, options)

    return load


def values(rows: Sequence[Any]) -> list[Any]:
    """The payloads of some rows, sorted."""
    return sorted((json.loads(row["payload"]) for row in rows), key=repr)


def picked(rows: Sequence[Any], *columns: str) -> list[tuple[Any, ...]]:
    """Some columns of some rows, sorted."""
    return sorted((tuple(row[column] for column in columns) for row in rows), key=repr)
