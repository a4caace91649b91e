"""GET /dashboard/now: what all open dashboards share is what the API says, and is made once for all of them."""

import asyncio
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from queenmq.broker.dashboard.now import PARTS
from tests.broker.issuer import SECRET, token
from tests.broker.shorthand import pop, push, refused
from tests.waits import until

CROWD = 40


async def now(web, *parts):
    answer = await web.get("/dashboard/now", params={"parts": ",".join(parts)})
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.fixture
async def web(server):
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        yield client


async def test_each_part_is_the_answer_of_a_public_call(web, http, queue):
    await push(http, queue, 1, 2)
    await pop(http, queue, consumerGroup="g")
    found = await now(web, *PARTS)
    assert found.keys() == PARTS.keys()
    for name, part in PARTS.items():
        answer = await web.get(part.target)
        assert found[name]["status"] == answer.status_code == 200
        assert type(found[name]["body"]) is type(answer.json())
    assert found["overview"]["body"]["messages"]["total"] >= 2


async def test_many_dashboards_cost_as_much_as_one(web):
    answers = await asyncio.gather(*(now(web, "overview") for _ in range(CROWD)))
    assert len({each["overview"]["body"]["countedAt"] for each in answers}) <= 2  # the moment of the count


async def test_a_part_is_made_again_when_it_is_old(web, http, queue):
    async def total():
        return (await now(web, "overview"))["overview"]["body"]["messages"]["total"]

    before = await total()
    await push(http, queue, 1, 2, 3)

    async def counted():
        return await total() == before + 3

    await until("the new messages are counted", counted)


async def test_a_part_that_fails_says_so_and_the_others_are_there(serve, proxy):
    server = await serve(dsn=proxy.dsn)
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as web:
        proxy.refuse()
        proxy.cut()

        async def failed():
            found = await now(web, "overview", "maintenance")
            return found if found["overview"]["status"] == 503 else None

        found = await until("the part fails", failed)
        assert found["overview"]["body"]["code"] == "DATABASE_UNAVAILABLE"
        assert found["maintenance"]["status"] == 200
        proxy.heal()


async def test_an_unknown_part_is_refused(web):
    refused(await web.get("/dashboard/now?parts=overview,secrets"), 400, "INVALID_ARGUMENT")
    refused(await web.get("/dashboard/now"), 400, "INVALID_ARGUMENT")
    refused(await web.get("/dashboard/now?parts=doctor"), 400, "INVALID_ARGUMENT")


async def test_what_dashboards_share_needs_a_token_with_the_right_role(serve):
    server = await serve(auth_secret=SECRET)
    reader = {"authorization": f"Bearer {token(roles=['read-only'])}"}
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as web:
        assert (await web.get("/dashboard/now?parts=overview")).status_code == 401
        assert (await web.get("/dashboard/now?parts=overview", headers=reader)).status_code == 200
        assert (await web.get("/dashboard/rates", headers=reader)).status_code == 200
        assert (await web.get("/dashboard/checks?parts=doctor", headers=reader)).status_code == 403
        session = (await web.get("/dashboard/session", headers=reader)).json()
        assert (session["subject"], session["roles"]) == ("ann", ["read-only"])


async def test_rates_are_differences_of_what_is_counted_each_minute(serve, connection, queue):
    server = await serve(upkeep=False)  # the test counts
    moment = datetime.now(UTC)
    async with server.client() as http, httpx.AsyncClient(base_url=server.url) as web:
        await push(http, queue, *range(60))
        await connection.execute("select queen.collect_stats($1)", moment - timedelta(minutes=1))
        [line] = (await web.get("/dashboard/rates")).json()
        assert (line["unfinished"], line["pushedPerSecond"], line["growth"]) == (60, None, None)
        await pop(http, queue, batch=30, autoAck="true", consumerGroup="g")
        await push(http, queue, *range(120))
        await connection.execute("select queen.collect_stats($1)", moment)
        [line] = (await web.get("/dashboard/rates")).json()
    assert (line["unfinished"], line["pushedPerSecond"], line["growth"], line["growthSeconds"]) == (150, 2.0, 90, 60.0)
