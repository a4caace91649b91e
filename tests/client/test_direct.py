"""Straight over PostgreSQL: the engine opens with the first call, minds maintenance and closes for good."""

import asyncio
import subprocess
import sys
from time import monotonic

import pytest

from queenmq import AsyncQueen, Queen
from queenmq.client.transports.postgres import RETURN_SECONDS_MAX
from queenmq.config import Settings
from queenmq.errors import Closed, DatabaseUnavailable, Paused
from tests.fixtures.proxy import proxy_to
from tests.waits import until


async def test_many_first_calls_open_one_engine(module_database, queue):
    queen = AsyncQueen(module_database)
    await asyncio.gather(*(queen.queue(queue).push(number) for number in range(20)))
    assert sorted(each.payload for each in await queen.queue(queue).batch(99).pop()) == list(range(20))
    await queen.close()
    with pytest.raises(Closed):
        await queen.queue(queue).push(1)


async def test_a_database_that_is_away_is_tried_again_by_the_next_call(module_database, queue):
    async with proxy_to(module_database) as proxy:
        queen = AsyncQueen(proxy.dsn, settings=Settings(retry_attempts_max=0))
        proxy.refuse()
        with pytest.raises(DatabaseUnavailable):
            await queen.queue(queue).push(1)
        proxy.accept()
        assert (await queen.queue(queue).push(1)).status == "queued"
        await queen.close()


async def away(queen, proxy):
    """Cut the way to PostgreSQL, and wait until the client has noticed."""
    proxy.refuse()
    proxy.cut()
    await until("the client has noticed", lambda: queen._transport.engine.database.away)


async def test_a_push_waits_for_postgresql_to_come_back(module_database, queue):
    async with proxy_to(module_database) as proxy, AsyncQueen(proxy.dsn) as queen:
        await queen.queue(queue).push(1)
        await away(queen, proxy)
        pushing = asyncio.create_task(queen.queue(queue).push(2))
        await until("the push waits", lambda: queen._transport.engine.pusher.batcher.batches == 2)
        assert not pushing.done()
        proxy.accept()
        assert (await pushing).status == "queued"
        assert [each.payload for each in await queen.queue(queue).batch(9).pop()] == [1, 2]


async def test_a_push_does_not_wait_for_ever(module_database, queue):
    async with proxy_to(module_database) as proxy, AsyncQueen(proxy.dsn) as queen:
        await queen.queue(queue).push(1)
        queen._transport.engine.database.return_seconds_max = 0.1
        await away(queen, proxy)
        with pytest.raises(DatabaseUnavailable):
            await queen.queue(queue).push(2)
        proxy.accept()


async def test_a_push_fails_at_once_if_nothing_may_be_tried_again(module_database, queue):
    settings = Settings(retry_attempts_max=0)
    async with proxy_to(module_database) as proxy, AsyncQueen(proxy.dsn, settings=settings) as queen:
        await queen.queue(queue).push(1)
        await away(queen, proxy)
        started = monotonic()
        with pytest.raises(DatabaseUnavailable):
            await queen.queue(queue).push(2)
        assert monotonic() - started < RETURN_SECONDS_MAX
        proxy.accept()


async def test_pushes_are_refused_during_maintenance(module_database, queue):
    async with AsyncQueen(module_database) as queen:
        await queen.admin.set_maintenance(enabled=True)
        try:
            with pytest.raises(Paused):
                await queen.queue(queue).push(1)
        finally:
            await queen.admin.set_maintenance(enabled=False)
        await queen.queue(queue).push(1)


def test_a_program_without_asyncio_needs_no_server_either(module_database, queue):
    with Queen(module_database) as queen:
        queen.queue(queue).push({"id": 1})
        [message] = queen.queue(queue).wait().pop()
        assert message.payload == {"id": 1}
        message.ack()
    with pytest.raises(Closed):
        queen.queue(queue).pop()


FORKED = """
import os, sys
from queenmq import Queen
from queenmq.errors import Closed

queen = Queen(sys.argv[1])
queen.ping()
if child := os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
try:
    queen.ping()
except Closed as error:
    assert "forked" in str(error)
    sys.exit(0)
"""


def test_a_client_of_the_parent_says_so_in_a_forked_process(module_database):
    subprocess.run([sys.executable, "-c", FORKED, module_database], check=True, timeout=60)


FORGETFUL = """
import sys
from queenmq import Queen

queen = Queen(sys.argv[1])
print(queen.queue(sys.argv[2]).push(1).status)
"""


def test_a_program_that_forgets_to_close_ends_in_peace(address, queue):
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", FORGETFUL, address, queue],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "queued\n", "")
