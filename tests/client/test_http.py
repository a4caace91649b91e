"""Over HTTP: servers that are not there, answers that are lost, errors that travel, tokens."""

import asyncio
import socket

import pytest

from queenmq import AsyncQueen, Outgoing, Stop
from queenmq.client.transports import open_transport
from queenmq.client.unavailable import NotSent
from queenmq.config import Settings
from queenmq.errors import (
    Closed,
    ConfigurationError,
    Forbidden,
    InvalidArgument,
    InvalidToken,
    QueenError,
    Refused,
    Unauthorized,
    Unavailable,
)
from tests.broker.issuer import SECRET, token
from tests.client.relay import relay

SECONDS_MAX = 10  # less than a lease lasts
ONE_TRY = Settings(retry_attempts_max=0, request_timeout_ms=500)


@pytest.fixture
def nobody():
    """An address where nobody listens, and nobody will while the test runs."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


def answer(status, body):
    return f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode()


async def test_what_cannot_be_sent_is_refused_before_it_is(nobody, queue):
    async with AsyncQueen(nobody) as queen:
        in_queue, in_group = queen.queue("\ud800"), queen.queue(queue).group("\ud800")
        for odd in (in_queue.pop(), in_group.pop(), queen.admin.describe("\ud800")):
            with pytest.raises(InvalidArgument, match="surrogates"):
                await odd


# -- servers


async def test_the_next_server_is_asked_when_one_is_not_there(server, queue, nobody):
    async with AsyncQueen(f"{nobody}, {server.url}/", settings=ONE_TRY) as queen:
        await queen.queue(queue).push(1)
        [message] = await queen.queue(queue).pop()
        assert (await queen.ack(message)).success


async def test_the_server_that_answered_is_asked_first(server, queue):
    async with relay(server.url) as first, AsyncQueen(f"{first.url},{server.url}") as queen:
        await queen.queue(queue).push(1)
        assert first.seen == 1
        first.manner = "lose"
        await queen.queue(queue).push(2)
        await queen.queue(queue).push(3)
        assert first.seen == 2
        assert [each.payload for each in await queen.queue(queue).batch(9).pop()] == [1, 2, 3]


async def test_after_a_lost_answer_the_next_server_is_asked(server, queue):
    async with relay(server.url) as first, AsyncQueen(f"{first.url},{server.url}") as queen:
        first.manner = "lose"
        with pytest.raises(Unavailable):
            await queen.queue(queue).pop()
        assert await queen.queue(queue).pop() == []
        assert first.seen == 1


async def test_a_server_that_comes_back_is_found(server, queue):
    async with relay(server.url) as between, AsyncQueen(between.url) as queen:
        between.manner, between.losses_max = "lose", 2
        assert (await queen.queue(queue).push(1)).status == "queued"
        assert between.seen == 3


async def test_nobody_anywhere_is_an_error_that_says_so(nobody, queue):
    async with AsyncQueen(nobody, settings=ONE_TRY) as queen:
        with pytest.raises(Unavailable, match=nobody) as error:
            await queen.queue(queue).push(1)
    assert "queen serve" in error.value.hint


async def test_a_call_that_may_have_arrived_before_does_not_say_that_nothing_was_sent(server, nobody, queue):
    async with relay(server.url) as first, AsyncQueen(f"{first.url},{nobody}", settings=ONE_TRY) as queen:
        first.manner = "lose"
        with pytest.raises(Unavailable, match="an earlier try may have arrived") as error:
            await queen.queue(queue).push(1)
    assert not isinstance(error.value, NotSent)


# -- lost answers


async def test_a_push_whose_answer_was_lost_is_stored_once(server, queue):
    async with relay(server.url) as between, AsyncQueen(between.url) as queen:
        between.manner, between.losses_max = "lose", 1
        pushed = await queen.queue(queue).push_many([1, 2])
        assert [each.status for each in pushed] == ["queued", "queued"]
        assert [each.payload for each in await queen.queue(queue).batch(9).pop()] == [1, 2]
        assert [each.id for each in pushed] == [
            each.id for each in reversed((await queen.messages.list(queue=queue)).messages)
        ]


async def test_an_ack_whose_answer_was_lost_is_not_repeated(server, queue):
    async with relay(server.url) as between, AsyncQueen(between.url) as queen:
        await queen.queue(queue).push(1)
        [message] = await queen.queue(queue).pop()
        between.manner = "lose"
        seen = between.seen
        with pytest.raises(Unavailable, match="lost"):
            await queen.ack(message)
        assert between.seen == seen + 1
        between.manner = "pass"
        assert await queen.queue(queue).pop() == []  # it was done


async def test_a_pop_that_is_called_off_gives_back_what_it_brings(server, queue):
    async with relay(server.url) as between, AsyncQueen(between.url) as queen, AsyncQueen(server.url) as other:
        await other.queue(queue).push(1)
        between.manner = "hold"
        popping = asyncio.create_task(queen.queue(queue).pop())
        await between.holds.wait()  # it is leased, and the answer is on its way
        popping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await popping
        between.let_go.set()
        [message] = await other.queue(queue).wait(SECONDS_MAX).pop()
        assert (message.payload, message.retry_count) == (1, 0)


@pytest.mark.parametrize("handlers", [1, 3])
async def test_a_consumer_that_stops_gives_back_what_is_on_its_way_to_it(server, queue, handlers):
    async with relay(server.url) as between, AsyncQueen(server.url) as other:
        async with AsyncQueen(between.url) as queen:
            await other.queue(queue).push([Outgoing(1, partition=str(number)) for number in range(handlers)])
            between.manner, stop, handled = "hold", Stop(), []
            consuming = asyncio.create_task(queen.queue(queue).consume(handled.append, concurrency=handlers, stop=stop))
            await between.holds.wait()
            stop.set()
            await consuming
            between.let_go.set()
        messages = await other.queue(queue).batch(9).max_partitions(9).pop()  # the client has given back what it had
        assert [(message.payload, message.retry_count) for message in messages] == [(1, 0)] * handlers
        assert handled == []


async def test_a_server_that_says_nothing_is_not_waited_for_longer_than_set(server, queue):
    async with (
        relay(server.url) as between,
        AsyncQueen(between.url, settings=Settings(request_timeout_ms=500)) as queen,
    ):
        between.manner = "silence"
        with pytest.raises(Unavailable, match="lost"):
            await queen.queue(queue).push(1)
        assert between.seen == 1


async def test_who_asked_to_wait_may_wait_longer_than_that(server, queue):
    settings = Settings(retry_attempts_max=0, request_timeout_ms=100)
    async with AsyncQueen(server.url, settings=settings) as queen:
        assert await queen.queue(queue).wait(0.3).pop() == []


async def test_a_poll_that_is_called_off_takes_nothing_with_it(server, queue):
    async with AsyncQueen(server.url) as queen, AsyncQueen(server.url) as other:
        poll = asyncio.ensure_future(queen.queue(queue).wait(30).pop())
        await other.queue(queue).group("witness").pop()  # so that the poll is under way, or about to be
        poll.cancel()
        with pytest.raises(asyncio.CancelledError):
            await poll
        await other.queue(queue).push(1)
        [message] = await other.queue(queue).wait(30).pop()
        assert message.payload == 1


# -- errors


@pytest.mark.parametrize(
    ("status", "body", "kind", "said"),
    [
        ("502 Bad Gateway", "<html>", Unavailable, "127.0.0.1 answered 502 Bad Gateway"),
        ("500 Internal Server Error", '{"error": "oh"}', QueenError, "oh"),
        ("418 Teapot", '{"error": "short and stout", "code": "TEAPOT"}', Refused, "short and stout"),
        ("403 Forbidden", '{"error": "no", "code": "FORBIDDEN"}', Forbidden, "no"),
        ("404 Not Found", "", Refused, "127.0.0.1 answered 404 Not Found"),
    ],
)
async def test_an_error_becomes_its_class_again(server, queue, status, body, kind, said):
    async with relay(server.url) as between, AsyncQueen(between.url, settings=ONE_TRY) as queen:
        between.manner = answer(status, body)
        with pytest.raises(kind) as error:
            await queen.queue(queue).pop()
    assert (type(error.value), str(error.value)) == (kind, said)


@pytest.mark.parametrize("body", ["<html>", '{"messages": 7}'])
async def test_something_else_at_the_address_is_found_out(server, queue, body):
    async with relay(server.url) as between, AsyncQueen(between.url) as queen:
        between.manner = answer("200 OK", body)
        with pytest.raises(QueenError, match="does not answer as a server of Queen does"):
            await queen.queue(queue).pop()


@pytest.mark.parametrize(
    "address",
    [
        "ftp://somewhere",
        "somewhere",
        "http://",
        "http://a,b",
        "http://a?b=c",
        "http://a,postgresql://b",
        "http://a:b",
    ],
)
def test_an_address_that_is_none_is_refused(address):
    with pytest.raises(ConfigurationError):
        AsyncQueen(address)


async def test_a_client_that_was_closed_says_so(server, queue):
    queen = AsyncQueen(server.url)
    await queen.close()
    with pytest.raises(Closed):
        await queen.queue(queue).push(1)


# -- where the server is


@pytest.mark.parametrize(
    ("address", "settings", "kind"),
    [
        (None, Settings(), "HttpTransport"),
        (None, Settings(url="http://a", dsn="postgresql://b"), "HttpTransport"),
        (None, Settings(dsn="postgresql://b"), "PostgresTransport"),
        ("postgres://c", Settings(url="http://a"), "PostgresTransport"),
        ("https://c", Settings(dsn="postgresql://b"), "HttpTransport"),
    ],
)
async def test_the_address_is_the_one_given_or_that_of_the_environment(address, settings, kind):
    transport = open_transport(address, None, settings)
    assert type(transport).__name__ == kind
    await transport.close()


async def test_a_token_opens_the_door(serve, queue):
    server = await serve(auth_secret=SECRET)
    async with AsyncQueen(server.url) as queen:
        with pytest.raises(Unauthorized):
            await queen.queue(queue).push(1)
    async with AsyncQueen(server.url, token=token(roles=["consumer"])) as queen:
        with pytest.raises(Forbidden):
            await queen.queue(queue).push(1)
    async with AsyncQueen(server.url, token="nonsense") as queen:
        with pytest.raises(InvalidToken):
            await queen.queue(queue).pop()
    async with AsyncQueen(server.url, settings=Settings(token=token(sub="ann"))) as queen:
        await queen.queue(queue).push(1)
        [message] = await queen.queue(queue).pop()
        assert message.producer == "ann"
