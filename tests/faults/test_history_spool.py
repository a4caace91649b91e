"""A spool whose messages were stored, and lost with the history: what is left in its file is stored again."""

import asyncio

from tests.broker.shorthand import drained, maintenance, push
from tests.faults.lost_history.changes import DATABASE, AsynchronousPromotion, Restore
from tests.faults.lost_history.places import PATIENCE_SECONDS, content, looking, places, stored

IDS = [f"id-{number}" for number in range(10)]
LIMIT = 4


async def test_messages_of_a_spool_file_that_were_stored_and_lost_are_stored_again(replication, tmp_path):
    change = Restore(replication)
    await change.prepare()
    async with places(change.dsn, tmp_path) as at, at.servers[0].client() as http:
        await configure(http, LIMIT)
        await change.keep()
        await maintenance(http, enabled=True)
        for id in IDS:
            await push(http, "orders", content("orders", "ann", id), partition="ann", transactionId=id, status=202)
        await maintenance(http, enabled=False)
        async with looking(change.dsn) as connection:
            await until_stored(connection, IDS[:LIMIT])  # the rest waits in the file: the queue is full
        await change.happen()
        async with looking(change.dsn) as connection:
            await until_stored(connection, IDS[:LIMIT])
            await configure(http, len(IDS))
            await drained(http)
            assert [each.id for each in await stored(connection)] == IDS


async def configure(http, messages_max):
    answer = await http.post("/configure", json={"queue": "orders", "options": {"maxSize": messages_max}})
    assert answer.status_code == 200, answer.text


async def until_stored(connection, ids):
    async with asyncio.timeout(PATIENCE_SECONDS):
        while [each.id for each in await stored(connection)] != ids:
            pass


async def test_what_is_pushed_while_a_standby_takes_over_is_stored_once_and_in_order(replication, tmp_path):
    change = AsynchronousPromotion(replication)
    await change.prepare()
    async with places(change.dsn, tmp_path) as at, at.servers[0].client() as http:
        await push(http, "orders", content("orders", "ann", "first"), partition="ann", transactionId="first")
        await change.keep()
        await push(http, "orders", content("orders", "ann", "lost"), partition="ann", transactionId="lost")
        await change.nodes[0].stop("kill")
        for id in IDS:
            await push(http, "orders", content("orders", "ann", id), partition="ann", transactionId=id, status=202)
        await push(http, "orders", content("orders", "ann", "lost"), partition="ann", transactionId="lost", status=202)
        await change.nodes[1].promote()
        await drained(http)
        async with looking(change.nodes[1].dsn(DATABASE)) as connection:
            assert [each.id for each in await stored(connection)] == ["first", *IDS, "lost"]
