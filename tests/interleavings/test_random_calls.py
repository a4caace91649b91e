"""Every function against every other at random: whatever meets, PostgreSQL finds no deadlock.

20 seconds by default; `QUEEN_TEST_RANDOM_SECONDS=300` for five minutes. A failure shows its seed, which
`QUEEN_TEST_RANDOM_SEED` sets.
"""

import asyncio
import os
import time

import asyncpg

from tests.books import assert_the_books_balance
from tests.interleavings.random_calls import CALLS, HOLDS, PARTS, Dice

SECONDS = float(os.environ.get("QUEEN_TEST_RANDOM_SECONDS", "20"))
SEED = int(os.environ.get("QUEEN_TEST_RANDOM_SEED", str(time.time_ns() % 1_000_000)))
SESSIONS = 6
NAMED = [(name, statement) for name, statements in CALLS.items() for statement in statements]


async def test_every_function_that_may_lock_is_called_at_random(connection):
    rows = await connection.fetch(
        "select proname::text from pg_proc where pronamespace = 'queen'::regnamespace and provolatile = 'v'"
    )
    may_lock = {row[0] for row in rows}
    assert may_lock - CALLS.keys() - PARTS == set()
    assert not CALLS.keys() & PARTS


async def test_no_call_meets_another_in_a_deadlock(connect):
    print(f"QUEEN_TEST_RANDOM_SEED={SEED}")  # noqa: T201 (pytest shows it if the test fails)
    sessions = [await connect() for _ in range(SESSIONS + 1)]
    for session in sessions:
        await session.execute("set deadlock_timeout = '20ms'; set statement_timeout = '30s'")
    until = time.monotonic() + SECONDS
    counts: dict[str, int] = {}
    running: dict[int, str] = {}  # what each backend is asked, for the note of a failure
    async with asyncio.TaskGroup() as group:
        for number, session in enumerate(sessions[:-1]):
            group.create_task(call_at_random(session, Dice(SEED + number), until, counts, running))
        group.create_task(hold_at_random(sessions[-1], Dice(SEED + SESSIONS), until))
    print(f"{sum(counts.values())} calls in {SECONDS:g} s")  # noqa: T201 (`pytest -s` shows it)
    assert set(counts) == CALLS.keys()
    now = await sessions[0].fetchval("select clock_timestamp()")
    await assert_the_books_balance(sessions[0], now)


async def call_at_random(session, dice, until, counts, running):
    await session.execute("select nextval('queen.stage_ids')")
    every = dice.random.sample(NAMED, len(NAMED))  # each call once, then any
    while every or time.monotonic() < until:
        name, statement = every.pop() if every else dice.random.choice(NAMED)
        text = running[session.get_server_pid()] = dice.fill(statement)
        try:
            await session.execute(text)
        except asyncpg.PostgresError as error:
            if not error.sqlstate.startswith("QN"):
                error.add_note(f"{name}: {text}\n{error.context}\nall: {running}")
                raise
        if name == "commit_write":
            await session.execute("select nextval('queen.stage_ids')")
        counts[name] = counts.get(name, 0) + 1


async def hold_at_random(session, dice, until):
    while time.monotonic() < until:
        await session.execute("begin")
        await session.execute(dice.random.choice(HOLDS))
        await session.execute("commit")
