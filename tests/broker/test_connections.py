"""How the server speaks HTTP: what breaks the rules is told so like every other mistake, and hurts nobody else."""

import json

import pytest

from tests.broker.raw import Raw
from tests.broker.shorthand import data, parked, pop, push, refused

HEALTH = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"


def push_of(queue, *payloads):
    body = json.dumps({"items": [{"queue": queue, "payload": payload} for payload in payloads]}).encode()
    return b"POST /api/v1/push HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


@pytest.mark.parametrize(
    "request_",
    [
        b"nonsense\r\n\r\n",
        b"BREW /api/v1/push HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET /health HTTP/9.9\r\nhost: localhost\r\n\r\n",
        b"GET /health HTTP/1.1\r\nhost : queen\r\n\r\n",
        b"GET /health HTTP/1.1\r\nhost: localhost\r\nx: \x00\r\n\r\n",
        b"POST /api/v1/push HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n",
        b"POST /api/v1/push HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n{}",
        b"POST /api/v1/push HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n{}",
        b"POST /api/v1/push HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
async def test_what_is_not_http_is_told_so(server, request_):
    async with Raw.connected(server) as client:
        client.send(request_)
        answer = await client.answer()
        refused(answer, 400, "INVALID_HTTP")
        assert answer.headers["connection"] == "close"
        assert await client.closed()


async def test_headers_have_a_limit(serve, server):
    long = b"GET /health HTTP/1.1\r\nhost: localhost\r\nx: " + b"x" * 50_000
    narrow = await serve(header_bytes_max=8192)
    many = b"GET /health HTTP/1.1\r\nhost: localhost\r\n" + b"x: y\r\n" * 101 + b"\r\n"
    async with Raw.connected(server) as client:
        client.send(long + b"\r\n\r\n")
        assert (await client.answer()).status_code == 200
        client.send(many)
        refused(await client.answer(), 431, "HEADERS_TOO_LARGE")
        assert await client.closed()
    for request in (long + b"\r\n\r\n", long):  # complete, or not even that
        async with Raw.connected(narrow) as client:
            client.send(request)
            refused(await client.answer(), 431, "HEADERS_TOO_LARGE")
            assert await client.closed()


async def test_connections_beyond_the_limit_are_told_so(serve):
    server = await serve(connections_max=1)
    async with Raw.connected(server) as first:
        first.send(HEALTH)
        assert (await first.answer()).status_code == 200
        async with Raw.connected(server) as second:
            second.send(HEALTH)
            answer = await second.answer()
            refused(answer, 503, "BUSY")
            assert answer.headers["retry-after"]
            assert await second.closed()
        first.send(HEALTH.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))
        assert (await first.answer()).status_code == 200
        assert await first.closed()
    async with Raw.connected(server) as third:
        third.send(HEALTH)
        assert (await third.answer()).status_code == 200


async def test_requests_sent_without_waiting_are_answered_in_order(server, http, queue):
    async with Raw.connected(server) as client:
        client.send(b"".join(push_of(queue, number) for number in range(50)) + HEALTH)
        for _ in range(50):
            assert (await client.answer()).status_code == 201
        assert (await client.answer()).json()["status"] == "healthy"
        client.send(push_of(queue, 50) + b"nonsense\r\n\r\n")
        assert (await client.answer()).status_code == 201
        refused(await client.answer(), 400, "INVALID_HTTP")
        assert await client.closed()
    assert data(await pop(http, queue, batch=100)) == list(range(51))


async def test_a_body_may_come_in_pieces(server, http, queue):
    request = push_of(queue, "in pieces")
    head, _, body = request.partition(b"\r\n\r\n")
    chunked = head.replace(b"content-length: %d" % len(body), b"transfer-encoding: chunked") + b"\r\n\r\n"
    async with Raw.connected(server) as client:
        for place in range(len(request)):
            client.send(request[place : place + 1])
            await client.sent()
        assert (await client.answer()).status_code == 201
        client.send(chunked + b"%x\r\n%b\r\n" % (10, body[:10]))
        client.send(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body) - 10, body[10:]))
        assert (await client.answer()).status_code == 201
    assert data(await pop(http, queue, batch=100)) == ["in pieces"] * 2


async def test_a_client_may_ask_before_it_sends_a_body(serve, queue):
    server = await serve(body_bytes_max=1024)
    head, _, body = push_of(queue, "asked first").partition(b"\r\n\r\n")
    async with Raw.connected(server) as client:
        client.send(head + b"\r\nexpect: 100-continue\r\n\r\n")
        assert (await client.answer()).status_code == 100
        client.send(body)
        assert (await client.answer()).status_code == 201
        client.send(
            b"POST /api/v1/push HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1025\r\nexpect: 100-continue\r\n\r\n"
        )
        refused(await client.answer(), 413, "BODY_TOO_LARGE")
        assert await client.closed()


@pytest.mark.parametrize("expect", [b"", b"expect: 100-continue\r\n"], ids=["sends at once", "asks first"])
@pytest.mark.parametrize("request_line", [b"POST /api/v1/push", b"POST /api/v1/ack", b"GET /health"])
async def test_a_body_that_is_declared_too_large_is_refused_before_it_comes(server, request_line, expect):
    head = request_line + b" HTTP/1.1\r\nhost: localhost\r\n" + expect + b"content-length: 99999999999\r\n\r\n"
    for start in (b"", b"{", b"x" * 100_000):
        async with Raw.connected(server) as client:
            client.send(HEALTH + head + start)
            assert (await client.answer()).status_code == 200  # of what was asked before
            answer = await client.answer()
            refused(answer, 413, "BODY_TOO_LARGE")
            assert answer.headers["connection"] == "close"
            assert await client.closed()


async def test_a_client_is_asked_for_its_body_when_its_turn_comes(server, http, queue):
    wait = b"GET /api/v1/pop/queue/%b?wait=true&timeout=20000&autoAck=true HTTP/1.1\r\nhost: localhost\r\n\r\n"
    head, _, body = push_of(queue, "second").partition(b"\r\n\r\n")
    async with Raw.connected(server) as client:
        client.send(wait % queue.encode() + head + b"\r\nexpect: 100-continue\r\n\r\n")
        await parked(server, 1)
        await push(http, queue, "first")
        first = await client.answer()
        assert (first.status_code, data(first.json())) == (200, ["first"])
        assert (await client.answer()).status_code == 100
        client.send(body)
        assert (await client.answer()).status_code == 201
        client.send(HEALTH)
        assert (await client.answer()).status_code == 200
    assert data(await pop(http, queue)) == ["second"]


async def test_a_body_that_comes_while_an_earlier_request_is_answered_is_read(server, http, queue):
    wait = b"GET /api/v1/pop/queue/%b?wait=true&timeout=20000&autoAck=true HTTP/1.1\r\nhost: localhost\r\n\r\n"
    second = push_of(queue, "second")
    async with Raw.connected(server) as client:
        client.send(wait % queue.encode() + second[:-10])
        await parked(server, 1)
        await push(http, queue, "first")
        assert data((await client.answer()).json()) == ["first"]
        client.send(second[-10:])
        assert (await client.answer()).status_code == 201


async def test_a_client_that_waits_is_not_asked_for_a_body_that_nobody_reads(server):
    for target, status in ((b"/nowhere", 404), (b"/health", 405), (b"/api/v1/lease/x/release", 400)):
        async with Raw.connected(server) as client:
            head = b"POST %b HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\nexpect: 100-continue\r\n\r\n"
            client.send(head % target)
            answer = await client.answer()
            assert (answer.status_code, answer.headers["connection"]) == (status, "close")
            assert await client.closed()


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        (b"transfer-encoding: gzip, chunked", 415, "UNSUPPORTED_TRANSFER_ENCODING"),
        (b"transfer-encoding: gzip\r\ntransfer-encoding: chunked", 415, "UNSUPPORTED_TRANSFER_ENCODING"),
        (b"transfer-encoding: identity, chunked", 415, "UNSUPPORTED_TRANSFER_ENCODING"),
        (b"transfer-encoding: chunked, gzip", 400, "INVALID_HTTP"),
        (b"transfer-encoding: gzip", 400, "INVALID_HTTP"),
        (b"transfer-encoding: chunked, chunked", 400, "INVALID_HTTP"),
        (b"transfer-encoding: chunked\r\ntransfer-encoding: chunked", 400, "INVALID_HTTP"),
        (b"transfer-encoding: xchunked", 400, "INVALID_HTTP"),
        (b"transfer-encoding: \x0bchunked", 400, "INVALID_HTTP"),
        (b"transfer-encoding: , chunked", 400, "INVALID_HTTP"),
        (b"transfer-encoding:", 400, "INVALID_HTTP"),
    ],
)
async def test_a_body_is_transferred_in_chunks_or_not_encoded(server, headers, status, code):
    async with Raw.connected(server) as client:
        client.send(b"POST /api/v1/push HTTP/1.1\r\nhost: localhost\r\n" + headers + b"\r\n\r\n2\r\n{}\r\n0\r\n\r\n")
        refused(await client.answer(), status, code)
        assert await client.closed()


async def test_http_1_0_knows_no_chunks(server):
    async with Raw.connected(server) as client:
        client.send(
            b"POST /api/v1/push HTTP/1.0\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
        )
        refused(await client.answer(), 400, "INVALID_HTTP")
        assert await client.closed()


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd", "deflate", "x-unheard-of", "identity, gzip"])
async def test_an_encoded_body_is_refused(http, encoding):
    answer = await http.post("/push", content=b"{}", headers={"content-encoding": encoding})
    refused(answer, 415, "UNSUPPORTED_ENCODING")
    assert answer.headers["accept-encoding"] == "identity"


async def test_a_body_whose_encoding_changes_nothing_is_read(http, queue):
    for encoding in ("identity", "Identity", ""):
        body = {"items": [{"queue": queue, "payload": 1}]}
        answer = await http.post("/push", json=body, headers={"content-encoding": encoding})
        assert answer.status_code == 201


@pytest.mark.parametrize("start", [b"2;x=", b"2\r\n{}\r\n0\r\ntrailer: "], ids=["chunk extension", "trailer"])
async def test_what_surrounds_the_chunks_of_a_body_has_a_limit(server, start):
    head = b"POST /api/v1/push HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
    async with Raw.connected(server) as client:
        client.send(head + start)
        await client.sent()
        client.send(b"x" * 200_000)
        refused(await client.answer(), 431, "HEADERS_TOO_LARGE")
        assert await client.closed()


async def test_half_a_push_is_none(server, http, queue):
    async with Raw.connected(server) as client:
        client.send(push_of(queue, "half")[:-5])
    async with Raw.connected(server) as client:
        client.send(push_of(queue, "whole"))
        assert (await client.answer()).status_code == 201
    assert data(await pop(http, queue, batch=100)) == ["whole"]


async def test_a_connection_lasts_as_long_as_both_want_it(server):
    async with Raw.connected(server) as client:
        client.send(b"HEAD /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        answer = await client.answer(body=False)
        assert (answer.status_code, int(answer.headers["content-length"]) > 0) == (200, True)
        client.send(b"GET http://localhost:6632/health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert (await client.answer()).json()["status"] == "healthy"
        client.send(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n")
        assert (await client.answer()).status_code == 200
        assert await client.closed()
    async with Raw.connected(server) as client:
        client.send(b"GET /health HTTP/1.0\r\nhost: localhost\r\n\r\n")
        assert (await client.answer()).status_code == 200
        assert await client.closed()


@pytest.mark.parametrize(
    "name", ["a/partition/b", "a/depth", "a/messages", "a/extend", "a b", "ü", "100%", "%2F", "?", "#"]
)
async def test_a_name_in_an_address_is_what_was_encoded(http, name):
    encoded = "%" + name.encode().hex("%", 1)
    await push(http, name, 1, partition=name)
    assert (await http.get(f"/resources/queues/{encoded}")).json()["name"] == name
    assert (await http.get(f"/resources/queues/{encoded}/depth")).json()["queue"] == name
    assert (await http.get(f"/status/queues/{encoded}/messages")).json()["messages"][0]["partition"] == name
    assert data(await pop(http, name, consumerGroup=name)) == [1]
    seek = await http.post(f"/consumer-groups/{encoded}/queues/{encoded}/partitions/{encoded}/seek", json={"offset": 0})
    assert (seek.json()["queueName"], seek.json()["partitionsUpdated"]) == (name, 1)
    popped = (await http.get(f"/pop/queue/{encoded}/partition/{encoded}", params={"consumerGroup": name})).json()
    assert (popped["queue"], popped["partition"]) == (name, name)


async def test_a_slash_may_be_sent_as_it_is(http):
    await push(http, "a/b", 1)
    assert (await http.get("/pop/queue/a/b")).json()["queue"] == "a/b"
