"""A client whose token has the one role `read-write`, as the original system issues them."""

import httpx


async def _pop(builder):
    return await builder.batch(10).wait(enabled=False).pop()


async def _status(call):
    """The status of an answer that is an error, None if it is none."""
    try:
        await call
    except httpx.HTTPStatusError as error:
        return error.response.status_code
    return None


async def it_creates_the_queues_that_it_uses(client, name):
    assert (await client.queue(name).config({"lease_time": 60}).create())["options"]["leaseTime"] == 60


async def it_pushes_pops_and_acknowledges(client, name):
    await client.queue(name).push([{"data": 1}])
    [message] = await _pop(client.queue(name))
    assert message["data"] == 1
    assert message["producerSub"] == "ann"
    assert (await client.ack(message))["success"]


async def it_may_not_delete_a_queue(client, name):
    await client.queue(name).push([{"data": 1}])
    assert await _status(client.queue(name).delete()) == 403
    assert len(await _pop(client.queue(name))) == 1
