"""Drivers that are killed between every two steps lose nothing and write nothing twice."""

from itertools import count

from tests.spark.jobs import digest, finished, kill, until

# A lock on what the next step needs stops a query before that step; there it is killed.
STEPS = {
    "written to the stage, not committed": "lock table queen.writes in access exclusive mode",
    "planned, not read": "lock table queen.partitions in access exclusive mode",
    "read, not staged": "lock table queen.staged_segments in access exclusive mode",
    "committed, not yet known to the source": "select 1 from queen.queue_groups where name = 'copy' for update",
}
WAITING = "select count(*) from pg_stat_activity where application_name = 'queen spark' and wait_event_type = 'Lock'"
ENSURE = "select partition_id from queen.ensure_partitions(array['orders'], array[$1])"
PUSH = "select first_offsets from queen.push_segments(array[$1::bigint], array[1], array[$2::bytea])"


async def test_a_query_killed_between_any_two_steps_writes_every_message_once(push, job, connection, connect):
    numbers = count()

    async def push_some():
        for partition in ("ann", "bob", "carl"):
            await push("orders", partition, *(f"{partition} {next(numbers)}" for _ in range(20)))

    await push_some()
    for lock in STEPS.values():
        blocker, late = await connect(), await connect()
        [place] = await late.fetch(ENSURE, f"late {next(numbers)}")
        open_push = late.transaction()
        await open_push.start()  # not finished when the query plans
        await late.fetch(PUSH, place["partition_id"], f'["late {next(numbers)}"]'.encode())
        await push_some()
        held = blocker.transaction()
        await held.start()
        await blocker.execute(lock)
        process = job()
        await until(connection, process, WAITING)
        kill(process)
        await held.rollback()
        await open_push.commit()
    await finished(job())
    source, copy = await digest(connection, "orders"), await digest(connection, "copy")
    assert source == copy
    assert source[1] == 60 * (len(STEPS) + 1) + len(STEPS)
    assert await connection.fetch("select * from queen.check_consistency()") == []
    assert await connection.fetchval("select messages from queen.lag where group_name = 'copy'") == 0
