"""Runs of pipelines on the session that all tests share."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from queenmq.spark.pipelines.job import Job
from queenmq.spark.pipelines.report import Report

Jobs = Callable[..., Job]
Perform = Callable[..., Awaitable[Report]]


@pytest.fixture
def job(spark: SparkSession, database: str) -> Jobs:
    """`with job("archive") as run: archive(run, ...)`."""

    def make(name: str = "test", **options: Any) -> Job:
        return Job(name, **{"dsn": database, "spark": spark} | options)

    return make


@pytest.fixture
def perform(job: Jobs) -> Perform:
    """`await perform(archive, queues=["orders"], …)`: one run, in a thread, as the event loop has the engine."""

    async def run(function: Callable[..., Report], *, dry_run: bool = False, **arguments: Any) -> Report:
        def work() -> Report:
            with job(function.__name__, dry_run=dry_run) as opened:
                return function(opened, **arguments)

        return await asyncio.to_thread(work)

    return run


@pytest.fixture
def place(tmp_path: Path) -> str:
    """Where an archive goes."""
    return str(tmp_path / "archive")
