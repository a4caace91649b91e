"""Push, pop and ack in few words, for the tests of the broker."""

import asyncio
from urllib.parse import quote

import httpx

SPOOL_SECONDS_MAX = 60


async def push(http, queue, *payloads, status=201, **fields):
    answer = await http.post("/push", json={"items": [{"queue": queue, "payload": p, **fields} for p in payloads]})
    assert answer.status_code == status, answer.text
    return answer.json()


async def pop(http, queue, status=200, **query):
    answer = await http.get(f"/pop/queue/{quote(queue, safe='')}", params=query)
    assert answer.status_code == status, answer.text
    return answer.json() if status == 200 else None


async def ack(http, *messages, **fields):
    acks = [{key: message[key] for key in ("transactionId", "partitionId", "leaseId")} | fields for message in messages]
    answer = await http.post("/ack/batch", json={"acknowledgments": acks})
    assert answer.status_code == 200, answer.text
    return answer.json()


def data(popped):
    return [message["data"] for message in popped["messages"]]


async def parked(server, polls):
    """Return when exactly so many polls wait in a server."""
    async with asyncio.timeout(20), httpx.AsyncClient(base_url=server.url) as client:
        while (await client.get("/metrics")).json()["polls"]["parked"] != polls:
            pass


def refused(answer, status, code):
    """The answer is an error as every client reads it; gives its body."""
    body = answer.json()
    assert (answer.status_code, body.get("code")) == (status, code), answer.text
    assert isinstance(body["error"], str)
    assert body["error"]
    assert body.keys() & {"hint"} == set() or body["hint"]
    return body


async def maintenance(http, *, enabled, what=""):
    answer = await http.post(f"/system/maintenance{what}", json={"enabled": enabled})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def until(http, **facts):
    """Wait until the server says so of its spool."""
    async with asyncio.timeout(SPOOL_SECONDS_MAX):
        while not facts.items() <= (found := (await http.get("/system/maintenance")).json()).items():
            pass
    return found


async def drained(http):
    """Wait until the files are gone too: as long as there is one, pushes go behind what was in it."""
    await until(http, databaseAvailable=True, enabled=False, bufferedMessages=0, bufferedBytes=0)
