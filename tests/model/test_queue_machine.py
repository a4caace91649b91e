"""Thousands of random moves. A failure prints the moves that lead to it; HYPOTHESIS_PROFILE=long looks longer."""

import asyncio

import asyncpg
import pytest
from hypothesis.stateful import run_state_machine_as_test

from tests.model.machine import QueueMachine
from tests.model.postgres import Postgres
from tests.queue_in_sql import Clock


@pytest.fixture
def machine(database):
    """The game, on a database of its own."""
    with asyncio.Runner() as runner:
        connection = runner.run(asyncpg.connect(database))
        QueueMachine.session = Postgres(runner.get_loop(), connection, Clock())
        QueueMachine.seen.clear()
        try:
            yield QueueMachine
        finally:
            runner.run(connection.close())


def test_postgres_agrees_with_a_queue_on_paper(machine):
    run_state_machine_as_test(machine)
    print(dict(machine.seen))  # noqa: T201 (how much was tried, with -s)
    for what in ("deliveries", "acks held", "acks refused"):
        assert machine.seen[what], f"{what}: none in {machine.seen['moves']} moves"


def play(machine, options, pushes, *moves):
    """A game that was lost once, or should not be left to chance."""
    game = machine()
    try:
        game.begin(options=options)
        game.some_traffic(pushes=pushes, pops=[])
        for move, arguments in moves:
            getattr(game, move)(**arguments)
            game.paper_and_postgres_agree()
    finally:
        game.teardown()


def pops(*asked, **options):
    return "pop_together", {"pops": [{"kind": kind, "batch": 1, **options} for kind in asked]}


def test_a_message_that_is_set_aside(machine):
    play(
        machine, {"dead_letter_enabled": True}, [(0, "ann", [None])],
        ("pop_plainly", {"kind": (0, "queue", 0), "batch": 1}), ("ack", {"ack": (0, "all", "dlq")}),
    )  # fmt: skip
    assert machine.seen["dead"] == 1


def test_two_lines_reach_for_the_same_partition(machine):
    play(
        machine, {}, [(0, "ann", [None])],
        pops((0, "queue", 1)), ("ack", {"ack": (0, "all", "completed")}), ("push", {"pushes": [(0, "ann", [None])]}),
        pops((0, "namespace", 1), (0, "queue", 1)),
    )  # fmt: skip


def test_one_line_reaches_for_what_another_one_has_named(machine):
    pushes = [(0, "ann", [None]), (0, "cat", [None])]
    play(machine, {}, pushes, pops((0, "queue", 0), (0, "queue", 0), (0, "ann", 0)))


def test_what_is_too_old_is_given_up_though_there_is_no_room_for_more(machine):
    play(
        machine, {"max_wait_seconds": 60}, [(0, "ann", [None]), (0, "dan", [None])],
        ("wait", {"amount": 40}), ("push", {"pushes": [(0, "ann", [None])]}), ("wait", {"amount": 40}),
        pops((0, "queue", 0), partitions=2),
    )  # fmt: skip


def test_a_full_request_may_leave_a_partition_in_which_nothing_is_due(machine):
    """The first queue of the namespace fills the request; a partition of the second one was ready before its delay."""
    play(
        machine, {"priority": 1}, [(0, "ann", [None, None, None]), (1, "dan", [None])],
        ("configure", {"queue": 1, "options": {}, "move": True}),
        pops((1, "queue", 1), lease_seconds=7), ("release", {"number": 0}),
        ("configure", {"queue": 1, "options": {"delayed_processing_seconds": 10}, "move": True}),
        ("pop_together", {"pops": [{"kind": (0, "namespace", 1), "batch": 3, "partitions": 3}]}),
    )  # fmt: skip
    assert machine.seen["ambiguous pops"]
