"""What is kept for ever is said where an operator looks: by the doctor, and when a server starts."""

from datetime import UTC, datetime, timedelta

import pytest

from queenmq.engine.checkup import check_up
from queenmq.engine.retention import Kept, duration, kept

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
LIMITED = Kept(
    unlimited=[],
    switched_off=[],
    queues=7,
    oldest_dead_letter=None,
    completed_seconds=604_800,
    dead_letter_seconds=2_592_000,
)


def with_(**changes):
    return Kept(**{name: getattr(LIMITED, name) for name in Kept.__struct_fields__} | changes)


@pytest.mark.parametrize(
    ("seconds", "whole", "text"),
    [
        (0, True, "for ever"),
        (1, True, "1 second"),
        (90, True, "90 seconds"),
        (7200, True, "2 hours"),
        (604_800, True, "7 days"),
        (0, False, "0 seconds"),
        (90, False, "1 minute"),
        (200_000, False, "2 days"),
    ],
)
def test_a_duration_is_told_in_the_largest_unit(seconds, whole, text):
    assert duration(seconds, whole=whole) == text


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        (LIMITED, "new queues keep finished messages 7 days, dead letters 30 days"),
        (
            with_(unlimited=["a"], switched_off=["b", "c"], completed_seconds=0),
            "new queues keep finished messages for ever, dead letters 30 days; 3 queues of 7 keep everything",
        ),
    ],
)
def test_the_greeting_says_what_is_kept(what, sentence):
    assert what.sentence == sentence


@pytest.mark.parametrize(
    ("what", "severity", "detail"),
    [
        (LIMITED, "ok", "every queue has a limit"),
        (with_(switched_off=["b"]), "ok", "1 queue with retention off: b"),
        (
            with_(unlimited=[f"q{n}" for n in range(7)], oldest_dead_letter=NOON - timedelta(days=40)),
            "warning",
            "7 queues without a limit: q0, q1, q2, q3, q4 and 2 more; the oldest dead letter failed 40 days ago",
        ),
    ],
)
def test_the_doctor_names_queues_that_keep_everything(what, severity, detail):
    check = what.check(NOON)
    assert (check.name, check.severity, check.detail) == ("retention", severity, detail)
    assert (check.hint is None) == (severity == "ok")


async def test_the_doctor_asks_the_database(engine, connect):
    async def found():
        [check] = [check for check in (await check_up(engine.database)).checks if check.name == "retention"]
        return check.severity, check.detail

    await engine.admin.configure_queue("orders")
    assert await found() == ("ok", "every queue has a limit")
    await engine.admin.configure_queue("history", retention_enabled=False)
    await engine.admin.configure_queue("log", completed_retention_seconds=0)
    detail = "1 queue without a limit: log; 1 queue with retention off: history"
    assert await found() == ("warning", detail)
    await (await connect()).execute(
        """insert into queen.dead_letters (queue_id, partition_id, group_name, "offset", created_at, failed_at,
                                           retry_count, encrypted, payload)
           select id, 1, 'g', 0, now(), now() - interval '3 days', 0, false, '1' from queen.queues where name = 'log'"""
    )
    assert await found() == ("warning", f"{detail}; the oldest dead letter failed 3 days ago")
    assert (await kept(engine.database)).sentence == (
        "new queues keep finished messages 7 days, dead letters 30 days; 2 queues of 3 keep everything"
    )
    await engine.database.value("select queen.purge_dead_letters(p_queue => 'log')")
