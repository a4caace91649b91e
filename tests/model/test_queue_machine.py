"""Thousands of random moves. A failure prints the moves that lead to it; HYPOTHESIS_PROFILE=long looks longer."""

import asyncio

import asyncpg
from hypothesis.stateful import run_state_machine_as_test

from tests.model.machine import QueueMachine
from tests.model.postgres import Postgres
from tests.queue_in_sql import Clock


def test_postgres_agrees_with_a_queue_on_paper(database):
    with asyncio.Runner() as runner:
        connection = runner.run(asyncpg.connect(database))
        QueueMachine.session = Postgres(runner.get_loop(), connection, Clock())
        try:
            run_state_machine_as_test(QueueMachine)
            print(dict(QueueMachine.seen))  # noqa: T201 (how much was tried, with -s)
            for what in ("deliveries", "acks held", "acks refused"):
                assert QueueMachine.seen[what], f"{what}: none in {QueueMachine.seen['moves']} moves"
        finally:
            runner.run(connection.close())
