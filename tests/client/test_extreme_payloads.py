"""Numbers and nesting at the limits: what is accepted can be read everywhere, and the rest is refused."""

import json
from contextlib import nullcontext
from math import inf

import asyncpg
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from queenmq import AsyncQueen
from queenmq.errors import InvalidPayload
from queenmq.model.payload_limits import DEPTH_MAX, DIGITS_MAX, check_limits
from queenmq.model.payloads import json_array
from tests.waits import until

ACCEPTED = {
    "long integer": b"9" * DIGITS_MAX,
    "long negative integer": b"-" + b"9" * DIGITS_MAX,
    "long fraction": b"0." + b"1" * DIGITS_MAX,
    "largest float": b"1.7976931348623157e308",
    "smallest float": b"5e-324",
    "exact float": b"2.2250738585072014e-308",
    "less than a float": b"1e-999",
    "beyond a float": b"1e999",
    "digits in a string": b'"%b"' % (b"7" * 5000),
    "digits behind a quote in a string": b'"\\\\\\"%b"' % (b"7" * 5000),
    "brackets in a string": b'"%b"' % (b"[" * 5000),
    "deep arrays": b"[" * DEPTH_MAX + b"]" * DEPTH_MAX,
    "deep objects": b'{"a":' * (DEPTH_MAX - 1) + b"{}" + b"}" * (DEPTH_MAX - 1),
    "wide": b"[%b]" % b",".join([b"[1,{}]"] * 5000),
}
REFUSED = {
    "integer": (b"9" * (DIGITS_MAX + 1), "a number of more than 330 digits: send it as a string"),
    "integer that Python does not read": (b"1" * 5000, "a number of more than 330 digits"),
    "fraction": (b"0." + b"1" * (DIGITS_MAX + 1), "a number of more than 330 digits"),
    "exponent": (b"1e" + b"0" * DIGITS_MAX + b"1", "a number of more than 330 digits"),
    "integer among strings": (b'["\\"", %b, "\\\\"]' % (b"1" * 5000), "a number of more than 330 digits"),
    "arrays": (b"[" * (DEPTH_MAX + 1) + b"]" * (DEPTH_MAX + 1), "nests more than 200 arrays and objects"),
    "objects": (b'{"]}":' * DEPTH_MAX + b"[]" + b"}" * DEPTH_MAX, "nests more than 200 arrays and objects"),
}

STORED = "select count(*) from queen.messages where queue = $1"


@pytest.fixture
async def connection(module_database):
    """A session on the database of the module's server."""
    session = await asyncpg.connect(module_database)
    yield session
    await session.close()


def same(found, text):
    """Whether a value is what was pushed; jsonb writes large floats as integers."""
    wanted = json.loads(text)
    if isinstance(wanted, float) and isinstance(found, int):
        found = inf if found >= 10**309 else float(found)
    return found == wanted


@pytest.mark.parametrize("text", ACCEPTED.values(), ids=ACCEPTED)
@pytest.mark.parametrize("way", ["items", "array", "SDK", "direct", "queen.push"])
async def test_what_is_accepted_can_be_read_everywhere(server, module_database, connection, http, queue, way, text):
    if way == "queen.push" and b"999" in text[:6] and b"e" in text:  # jsonb writes out about 1,000 digits
        with pytest.raises(asyncpg.PostgresError, match="a number of more than 330 digits"):
            await connection.execute("select queen.push($1, $2)", queue, text.decode())
        return
    async with AsyncQueen(server.url) as remote, AsyncQueen(module_database) as direct:
        if way == "items":
            body = b'{"items": [{"queue": "%b", "payload": %b}]}' % (queue.encode(), text)
            assert (await http.post("/push", content=body)).status_code == 201
        elif way == "array":
            assert (await http.post(f"/push/queue/{queue}", content=b"[%b]" % text)).status_code == 201
        elif way == "queen.push":
            await connection.execute("select queen.push($1, $2)", queue, text.decode())
            await until("the message is in its partition", lambda: connection.fetchval(STORED, queue))
        else:
            await (remote if way == "SDK" else direct).queue(queue).push(Raw(text))
        for sdk in (remote, direct):
            [payload] = [record.payload async for record in sdk.queue(queue).read()]
            assert same(payload, text)
    answer = await http.get(f"/pop/queue/{queue}", params={"autoAck": True})
    assert same(json.loads(answer.content)["messages"][0]["data"], text)
    seen = await connection.fetchrow("select payload, payload::jsonb from queen.messages where queue = $1", queue)
    assert all(same(json.loads(each), text) for each in seen)


@pytest.mark.parametrize(("text", "complaint"), REFUSED.values(), ids=REFUSED)
async def test_the_rest_is_refused_in_every_way_to_push(
    server, module_database, connection, http, queue, text, complaint
):
    good = b'{"queue": "%b", "payload": 1}' % queue.encode()
    bad = good.replace(b"1}", text + b"}")
    for path, body in (
        ("/push", b'{"items": [%b]}' % bad),
        (f"/push/queue/{queue}", b"[1, %b]" % text),
        ("/transaction", b'{"operations": [{"type": "push", "items": [%b]}]}' % bad),
    ):
        answer = await http.post(path, content=body)
        assert (answer.json()["code"], complaint in answer.json()["error"]) == ("INVALID_PAYLOAD", True), answer.text
    several = (await http.post("/push", content=b'{"items": [%b, %b]}' % (good, bad))).json()
    assert [(each["status"], each["code"]) for each in several] == [("queued", None), ("failed", "INVALID_PAYLOAD")]
    for address in (server.url, module_database):
        async with AsyncQueen(address) as queen:
            with pytest.raises(InvalidPayload, match=complaint):
                await queen.queue(queue).push(Raw(text))
    if b"e0" not in text:  # which jsonb writes as 10
        with pytest.raises(asyncpg.PostgresError, match=complaint) as refusal:
            await connection.execute("select queen.push($1, $2)", queue, text.decode())
        assert refusal.value.sqlstate == "QN422"
    assert await connection.fetchval(STORED, queue) == 1


json_values = st.recursive(
    st.one_of(st.text('\\"[]{}019', max_size=400), st.integers(0, 10**350), st.none()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text('\\"[]{}', max_size=5), inner),
    max_leaves=20,
)


@given(values=st.lists(json_values, min_size=1, max_size=5), fill=st.integers(0, 350))
def test_the_quick_check_agrees_with_a_slow_one(values, fill):
    texts = [msgspec.json.encode(each) for each in [*values, "7" * fill]]
    too_long = any(len(str(number)) > DIGITS_MAX for number in _numbers(values))
    with pytest.raises(InvalidPayload) if too_long else nullcontext():
        check_limits(json_array(texts), texts)


def _numbers(part):
    if isinstance(part, int):
        yield part
    for each in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from _numbers(each)
