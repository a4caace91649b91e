"""Health, readiness and metrics."""

import asyncio
import contextlib
import json
import os
import signal

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

import queenmq
from tests.broker.shorthand import ack, pop, push, refused


@pytest.fixture
async def root(server):
    """A client of the module's server, for what is not below /api/v1."""
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        yield client


async def figures(client):
    """What Prometheus reads: {name: {labels: value}}."""
    answer = await client.get("/metrics/prometheus")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels[name] for name in sorted(sample.labels))] = (
                sample.value
            )
    return found


async def test_a_server_that_lives_is_healthy_and_ready(root):
    answer = await root.get("/health")
    assert (answer.status_code, answer.json()) == (200, {"status": "healthy", "version": queenmq.__version__})
    answer = await root.get("/ready")
    assert (answer.status_code, answer.json()) == (200, {"status": "ready"})
    assert (await root.head("/health")).status_code == 200


async def test_without_postgres_a_server_is_healthy_but_not_ready(serve, proxy):
    server = await serve(dsn=proxy.dsn, retry_attempts_max=0)
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        proxy.refuse()
        proxy.cut()
        refusal = await client.get("/ready")
        assert "PostgreSQL" in refused(refusal, 503, "DATABASE_UNAVAILABLE")["error"]
        assert refusal.headers["retry-after"]
        assert (await client.get("/health")).status_code == 200
        assert (await client.get("/metrics")).status_code == 200
        proxy.accept()
        async with asyncio.timeout(20):
            while (await client.get("/ready")).status_code != 200:
                pass


async def test_a_postgres_that_says_nothing_makes_a_server_unready(serve, proxy):
    server = await serve(dsn=proxy.dsn)
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        proxy.pause()
        assert "within 2 seconds" in refused(await client.get("/ready"), 503, "DATABASE_UNAVAILABLE")["error"]
        proxy.resume()


async def test_traffic_is_counted(http, root, queue):
    before = (await root.get("/metrics")).json()
    await push(http, queue, 1, 2, 3)
    messages = (await pop(http, queue, batch=2))["messages"]
    await ack(http, *messages)
    await http.post("/push", content=b"no json")
    await http.get("/nothing")
    after = (await root.get("/metrics")).json()
    assert {name: after["messages"][name] - before["messages"][name] for name in after["messages"]} == {
        "pushed": 3,
        "popped": 2,
        "acked": 2,
        "retried": 0,
        "deadLettered": 0,
    }
    assert after["leases"]["granted"] == before["leases"]["granted"] + 1
    for phase in ("wait", "lease", "read", "encode"):
        assert after["popPhases"][phase]["count"] == before["popPhases"][phase]["count"] + 1
        assert after["popPhases"][phase]["seconds"] > before["popPhases"][phase]["seconds"]
    assert after["database"]["calls"] > before["database"]["calls"]
    for operation in ("push", "pop", "ack"):
        assert after["batching"][operation]["requests"] == before["batching"][operation]["requests"] + 1
        assert after["batching"][operation]["requestsPerBatch"] >= 1
    assert after["segmentCache"]["hits"] == before["segmentCache"]["hits"] + 1
    requests = {(each["method"], each["route"], each["status"]): each["count"] for each in after["requests"]}
    assert requests["POST", "/api/v1/push", 201] == 1
    assert requests["POST", "/api/v1/push", 400] == 1
    assert requests["GET", "/api/v1/pop/queue/{queue}", 200] == 1
    assert requests["", "", 404] == 1
    assert (after["workers"], after["requestsInFlight"]) == (1, 1)


async def test_prometheus_reads_the_same_figures(http, root, queue):
    await push(http, queue, 1, 2)
    found = await figures(root)
    told = (await root.get("/metrics")).json()
    assert found["queen_messages_pushed_total"][()] == told["messages"]["pushed"] >= 2
    assert found["queen_batched_requests_total"]["push",] == told["batching"]["push"]["requests"]
    key = ("POST", "/api/v1/push", "201")
    pushes = found["queen_request_seconds_count"][key]
    assert pushes == found["queen_request_seconds_bucket"][("+Inf", *key)]
    assert pushes == next(r["count"] for r in told["requests"] if (r["route"], r["status"]) == (key[1], 201))
    assert found["queen_request_seconds_sum"][key] > 0
    assert found["queen_workers"][()] == 1


async def test_retries_dead_letters_and_leases_are_counted(serve):
    server = await serve()
    async with server.client() as http:
        assert (
            await http.post("/configure", json={"queue": "orders", "options": {"retryDelay": 0}})
        ).status_code == 200
        await push(http, "orders", 1, 2, 3)
        (one, two, _) = (await pop(http, "orders", batch=3))["messages"]
        await ack(http, two, status="failed")
        await ack(http, one, status="dlq")
        told = (await http.get(f"{server.url}/metrics")).json()
        assert (told["messages"]["retried"], told["messages"]["deadLettered"]) == (1, 1)
        assert told["leases"] == {"granted": 1, "active": 1}
        assert told["deadLetters"] == [{"queue": "orders", "stored": 1}]
        http.base_url = server.url
        found = await figures(http)
        assert found["queen_messages_retried_total"] == found["queen_messages_dead_lettered_total"] == {(): 1}
        assert found["queen_leases_granted_total"] == found["queen_active_leases"] == {(): 1}
        assert found["queen_dead_letters"] == {("orders",): 1}
        assert found["queen_pop_phase_seconds_count"] == dict.fromkeys(
            [("wait",), ("lease",), ("read",), ("encode",)], 1
        )


async def test_database_calls_waits_and_batches_are_histograms(serve):
    server = await serve()
    async with server.client() as http:
        await push(http, "orders", 1)
        (message,) = (await pop(http, "orders"))["messages"]
        await ack(http, message)
        told = (await http.get(f"{server.url}/metrics")).json()
        http.base_url = server.url
        found = await figures(http)
    for operation in ("push", "pop", "ack"):
        assert found["queen_queue_wait_seconds_count"][operation,] == 1
        assert found["queen_batch_requests_bucket"]["1", operation] == 1
        assert 0 < told["batching"][operation]["waitSeconds"] < 60
    calls = found["queen_database_call_seconds_count"][()]
    assert found["queen_database_call_seconds_bucket"]["+Inf",] == calls > 0
    assert 0 < told["database"]["seconds"] <= found["queen_database_call_seconds_sum"][()]


async def test_metrics_tell_of_unread_messages_limits_and_the_ledger(serve, connection):
    server = await serve()
    async with server.client() as http:
        await http.post("/configure", json={"queue": "orders", "options": {"maxSize": 10}})
        await push(http, "orders", 1, 2)
        (message,) = (await pop(http, "orders", consumerGroup="g"))["messages"]
        await ack(http, message)
        await push(http, "unread", 1, 2, 3)
        await connection.execute("update queen.partition_consumers set completed = completed + 5")
        since = await connection.fetchval("select extract(epoch from started_at) from queen.incarnations")
        told = (await http.get(f"{server.url}/metrics")).json()
        http.base_url = server.url
        found = await figures(http)
    assert found["queen_queue_limit"] == {("orders",): 10}
    assert found["queen_unread_messages"] == {("unread",): 3}
    assert found["queen_unread_seconds"]["unread",] > 0
    assert found["queen_ledger_difference_messages"] == {("orders",): 5}
    assert told["ledgerDifferences"] == [{"queue": "orders", "messages": 5}]
    assert [(line["queue"], line["messages"]) for line in told["unread"]] == [("unread", 3)]
    assert found["queen_database_running_since_seconds"][()] == told["database"]["runningSince"] == float(since)
    assert (found["queen_database_available"][()], told["standbys"]) == (1, [])


async def test_metrics_tell_while_postgres_is_away(serve, proxy):
    server = await serve(dsn=proxy.dsn, retry_attempts_max=0)
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        proxy.refuse()
        proxy.cut()
        async with asyncio.timeout(20):
            while (await figures(client))["queen_database_available"][()]:
                await client.get("/ready")
        proxy.accept()


async def test_checks_of_parked_polls_and_shared_calls_are_counted(serve):
    server = await serve(poll_interval_min_ms=10, poll_interval_max_ms=20)
    async with server.client() as http:

        async def until(holds):
            async with asyncio.timeout(60):
                while not holds(told := (await http.get(f"{server.url}/metrics")).json()):
                    pass
            return told

        empty = pop(http, "empty", status=204, wait="true", timeout=2_000)
        pushes = [push(http, "orders", number) for number in range(40)]
        polls = asyncio.gather(empty, *pushes)
        told = await until(lambda told: told["polls"]["pendingCheckMisses"] > 0)
        polls_now = told["polls"]
        assert polls_now["pendingChecks"] == polls_now["pendingCheckHits"] + polls_now["pendingCheckMisses"]
        await polls
        batching = (await http.get(f"{server.url}/metrics")).json()["batching"]["push"]
        assert batching["roundTripsSaved"] == batching["requests"] - batching["batches"] > 0
        http.base_url = server.url
        found = await figures(http)
        assert found["queen_round_trips_saved_total"]["push",] == batching["roundTripsSaved"]
        assert found["queen_pending_checks_total"][()] >= polls_now["pendingChecks"]


async def test_metrics_tell_of_queues_and_groups(serve):
    server = await serve()
    async with server.client() as http:
        await push(http, "orders", 1, 2, 3)
        (message,) = (await pop(http, "orders", consumerGroup="g"))["messages"]
        await ack(http, message)
        told = (await http.get(f"{server.url}/metrics")).json()
        assert told["queues"] == [{"queue": "orders", "stored": 3, "depth": 2, "limit": None}]
        (lag,) = told["groups"]
        assert lag.pop("seconds") > 0
        assert lag == {"queue": "orders", "group": "g", "messages": 2}
        http.base_url = server.url
        found = await figures(http)
        assert found["queen_group_lag_messages"] == {("g", "orders"): 2}
        assert found["queen_queue_depth"] == {("orders",): 2}


async def test_metrics_tell_what_waits_in_the_spool(serve):
    server = await serve()
    async with server.client() as http:
        assert (await http.post("/system/maintenance", json={"enabled": True})).status_code == 200
        await push(http, "q", 1, 2, status=202)
        http.base_url = server.url
        spool = (await http.get("/metrics")).json()["spool"]
        assert (spool["messages"], spool["refusedMessages"]) == (2, 0)
        found = await figures(http)
        assert found["queen_spool_messages"] == {(): 2}
        assert found["queen_spool_bytes"] == {(): spool["bytes"]}


async def test_without_a_spool_metrics_tell_of_none(serve):
    server = await serve(spool=False)
    async with server.client(base_url=server.url) as http:
        assert (await http.get("/metrics")).json()["spool"] is None
        assert "queen_spool_messages" not in await figures(http)


async def test_the_numbers_of_all_workers_add_up_also_of_dead_ones(serve, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    server = await serve(workers=2)
    (directory,) = tmp_path.glob("queen-*")

    async def told(pushed, workers):
        """Return when the metrics say so, whichever worker is asked."""
        async with asyncio.timeout(20):
            while True:
                with contextlib.suppress(httpx.TransportError):  # it went to the worker that is being killed
                    async with httpx.AsyncClient(base_url=server.url) as client:
                        answer = (await client.get("/metrics")).json()
                    if (answer["messages"]["pushed"], answer["workers"]) == (pushed, workers):
                        return

    async def written(pushed):
        """Return when the workers have written so much: what is not written dies with them."""
        async with asyncio.timeout(20):
            while True:
                files = [json.loads(path.read_bytes()) for path in directory.glob("*[0-9]")]
                if sum(file["counters"]["messages_pushed"] for file in files) == pushed:
                    return
                await told(pushed, 2)

    for n in range(20):  # each over a connection of its own, so that both workers get some
        async with server.client() as http:
            await push(http, "q", n)
    await told(20, 2)
    await written(20)
    os.kill(server.workers()[0], signal.SIGKILL)
    await told(20, 2)  # its replacement is there


async def test_a_killed_server_leaves_no_files_of_its_workers_behind(serve, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    server = await serve()
    (directory,) = tmp_path.glob("queen-*")
    server.process.kill()  # not its workers: they end by themselves
    async with asyncio.timeout(20):
        while await asyncio.to_thread(directory.exists):
            pass
    server.kill()
