"""Drivers that run in processes of their own: to be waited for, or killed."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.clusters import server_dir

JOB = Path(__file__).parent / "copy_job.py"
SECONDS_MAX = 300
DIGEST = """
select md5(string_agg(partition || ' ' || payload::text, e'\\n' order by partition, payload::text)), count(*)
  from queen.messages where queue = $1
"""

Job = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def job(database: str) -> Iterator[Job]:
    """Start the copying driver in a process group of its own; all that is left is killed at the end."""
    started: list[subprocess.Popen[str]] = []
    with server_dir() as checkpoint:

        def start(master: str = "local[2]") -> "subprocess.Popen[str]":
            started.append(launch(sys.executable, str(JOB), str(checkpoint / "c"), master, QUEEN_DSN=database))
            return started[-1]

        yield start
        for each in started:
            kill(each)


def launch(*command: str, **environment: str) -> "subprocess.Popen[str]":
    """A program that can be killed with all its children."""
    return subprocess.Popen(
        command, env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"} | environment, start_new_session=True, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def kill(process: "subprocess.Popen[str]") -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    assert process.stdout is not None
    process.stdout.close()
    process.wait()


async def finished(process: "subprocess.Popen[str]") -> None:
    watchdog = asyncio.get_running_loop().call_later(SECONDS_MAX, os.killpg, process.pid, signal.SIGKILL)
    output, _ = await asyncio.to_thread(process.communicate)
    watchdog.cancel()
    assert process.returncode == 0, output
    assert "\ndone\n" in f"\n{output}"


async def digest(connection: Any, queue: str) -> tuple[Any, ...]:
    """All messages of a queue in a few characters, and their number."""
    return tuple(await connection.fetchrow(DIGEST, queue))


async def until(
    connection: Any, process: "subprocess.Popen[str]", query: str, reached: Callable[[], bool] = lambda: True
) -> None:
    """Wait until a query finds something, and something else is so too; for as long as the process lives."""
    async with asyncio.timeout(SECONDS_MAX):
        while not (await connection.fetchval(query) and reached()):
            assert process.stdout is not None
            assert process.poll() is None, process.stdout.read()
            await connection.execute("select pg_sleep(0.02)")
