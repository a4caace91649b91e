"""The reader of a streaming query, driven step by step as Spark's driver does it."""

import asyncio

from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from queenmq.spark import QueenDataSource
from tests.spark.conftest import values

ALL = ReadAllAvailable()


class Stream:
    """The reader of a query as Spark's driver uses it, one step at a time."""

    def __init__(self, dsn, queue, options):
        source = QueenDataSource(CaseInsensitiveDict({"url": dsn, "queue": queue, **options}))
        self.reader = source.streamReader(StructType.fromDDL("payload string"))

    async def call(self, method, *arguments):
        return await asyncio.to_thread(getattr(self.reader, method), *arguments)

    async def start(self):
        return await self.call("initialOffset")

    async def latest(self, start, limit=ALL):
        return await self.call("latestOffset", start, limit)

    async def commit(self, end):
        await self.call("commit", end)

    async def between(self, start, end):
        tasks = await self.call("partitions", start, end)
        return values(await asyncio.to_thread(self._read, tasks))

    async def batch(self, start, limit=ALL):
        """The next micro-batch: its messages, and where it ends."""
        end = await self.latest(start, limit)
        return await self.between(start, end), end

    def _read(self, tasks):
        return [row for task in tasks for batch in self.reader.read(task) for row in batch.to_pylist()]
