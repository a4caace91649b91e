"""Eight processes on one queue die at random, for half a minute; then their diaries and the log must agree.

    QUEEN_TEST_CHAOS_SECONDS=300 QUEEN_TEST_CHAOS_SEED=7 make test ARGS='tests/faults/test_chaos.py -s'

The seed decides what the processes do and when they die, not how the machine mixes it.
"""

import asyncio
import random
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

import pytest

from tests.faults.chaos.story import DRAIN, SECONDS, beginning_of_the_story, end_of_the_story, seed, summary
from tests.faults.chaos.verdict import complaints
from tests.faults.chaos.worker import GROUPS

PROCESSES = 8
ROOT = Path(__file__).parents[2]


class Crowd:
    """The processes; whoever dies is replaced by one who knows what it left unfinished."""

    def __init__(self, dsn: str, directory: Path, dice: random.Random) -> None:
        self.killed = 0
        self._dsn = dsn
        self._directory = directory
        self._dice = dice
        self._numbers = count()
        self._workers = [self._start() for _ in range(PROCESSES)]

    def shake(self) -> None:
        """Wait for a random time, kill a random process, start another."""
        place = self._dice.randrange(PROCESSES)
        name, process = self._workers[place]
        try:
            code = process.wait(timeout=self._dice.uniform(0.5, 1.5))
            pytest.fail(f"{name} ended by itself with {code}; see above")
        except subprocess.TimeoutExpired:
            self._kill(process)
            self.killed += 1
            self._workers[place] = self._start(name)

    def end(self) -> None:
        for _, process in self._workers:
            self._kill(process)

    def _start(self, *predecessor: str) -> tuple[str, subprocess.Popen[bytes]]:
        name = f"w{next(self._numbers)}"
        arguments = [self._dsn, name, str(self._directory), str(self._dice.getrandbits(32)), *predecessor]
        return name, subprocess.Popen([sys.executable, "-m", "tests.faults.chaos.worker", *arguments], cwd=ROOT)

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()


def live_and_let_die(dsn: str, directory: Path, dice: random.Random) -> int:
    """Chaos, for a while; answers how many were killed in it."""
    crowd = Crowd(dsn, directory, dice)
    try:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            crowd.shake()
    finally:
        crowd.end()
    return crowd.killed


def test_eight_processes_that_die_at_random_lose_nothing_repeat_nothing_and_break_no_order(durable_postgres, tmp_path):
    dice = random.Random(seed())
    dsn = asyncio.run(beginning_of_the_story(durable_postgres))
    killed = live_and_let_die(dsn, tmp_path, dice)
    history = asyncio.run(end_of_the_story(dsn, tmp_path))
    print(f"{summary(history)}, {killed} processes killed")  # noqa: T201
    assert complaints(history, GROUPS, DRAIN) == []
    assert killed >= SECONDS / 3
    for what in ("push", "outbox", "ack", "transact", "renew", "release"):
        assert any(call.answer is not None for call in history.of(what)), f"no {what} was answered"
