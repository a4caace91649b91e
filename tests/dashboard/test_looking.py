"""Looking closely: a partition and its log, a message and its life, traces, the server."""

import re

import pytest

from tests.dashboard.conftest import becomes, cells, shown
from tests.waits import until_now

TRACE = "0190a3e4-0000-4000-8000-0000000000aa"


@pytest.fixture
def visit(page, api):
    def opened(address):
        page.goto(f"{api.url}/#/{address}")
        page.get_by_role("heading", level=1).wait_for()
        return page

    return opened


def offsets(page):
    """The offsets of the messages that are shown."""
    return [int(text) for text in page.locator(".records li > :first-child").all_inner_texts()]


def shows(page, first, last):
    until_now(f"offsets {first} to {last} are shown", lambda: offsets(page) == list(range(first, last + 1)))


def test_a_log_is_read_page_by_page_and_follows_what_is_new(api, visit, queue):
    api.push(queue, *range(50), partition="a/b")
    page = visit(f"queues/{queue}/partitions/a%2Fb")
    shows(page, 30, 49)
    api.push(queue, "new", partition="a/b")
    shows(page, 31, 50)
    page.get_by_role("button", name="Oldest").click()
    shows(page, 0, 19)
    page.get_by_role("button", name="Next").click()
    shows(page, 20, 39)
    page.get_by_role("button", name="Newest").click()
    shows(page, 31, 50)


def test_a_message_is_found_by_offset_time_text_and_id(api, visit, queue):
    results = api.push(queue, *({"n": n, "word": "needle" if n == 33 else "hay"} for n in range(60)))
    page = visit(f"queues/{queue}/partitions/Default")
    shows(page, 40, 59)

    def find(way, text):
        page.get_by_label("Find by").select_option(way)
        page.locator("form input").fill(text)
        page.get_by_role("button", name="Find", exact=True).click()

    find("Offset", "7")
    shows(page, 7, 26)
    find("Text in the payload", "needle")
    shows(page, 33, 52)
    find("Time", "2020-01-01T00:00:00")
    shows(page, 0, 19)
    find("Message or transaction id", results[5]["message_id"])
    page.get_by_role("heading", name="Message 5", level=1).wait_for()


def test_a_partition_shows_where_each_group_is_and_why(api, visit, queue):
    api.push(queue, *range(10), partition="ann")
    api.pop(queue, consumerGroup="fast", batch=10, autoAck="true")
    held = api.pop(queue, consumerGroup="slow", batch=3)
    page = visit(f"queues/{queue}/partitions/ann")
    assert cells(page, "fast")["State"] == "all read"
    line = cells(page, "slow")
    assert (line["State"], line["Next offset"]) == ("leased", "0")
    [reason] = api.get(f"/why/{queue}", group="slow", partition="ann")
    assert line["Why"] == reason["explanation"]
    strip = page.locator(".strip").last.get_attribute("aria-label")
    assert strip == "0 stored messages behind it, 3 leased, 10 unfinished"
    page.get_by_role("button", name="Release the lease of slow").click()
    becomes(page, "slow", "State", "ready")
    assert [each["id"] for each in api.pop(queue, consumerGroup="slow", batch=3)] == [each["id"] for each in held]


def test_a_group_is_moved_in_one_partition_after_a_preview(api, visit, queue):
    api.push(queue, *range(10), partition="ann")
    api.pop(queue, consumerGroup="g", batch=6, autoAck="true")
    page = visit(f"queues/{queue}/partitions/ann")
    page.get_by_role("button", name="Seek … g").click()
    shown(page, "The group skips 4 messages, from offset 6 on.")
    page.get_by_label("An offset", exact=True).check()
    page.get_by_label("Offset of the next message").fill("2")
    shown(page, "The group gets 4 messages again, from offset 2 on.")
    page.get_by_role("button", name="Move the group").click()
    becomes(page, "g", "Next offset", "2")
    assert [each["offset"] for each in api.pop(queue, consumerGroup="g", batch=2)] == [2, 3]


def test_a_message_shows_its_life_in_each_group(api, visit, queue):
    api.bury(queue, {"id": 12345678901234567890}, error="broken pipe", group="mailer")
    [letter] = api.get("/dlq", queue=queue)["messages"]
    api.pop(queue, consumerGroup="reader", autoAck="true")
    page = visit(f"messages/{letter['partitionId']}/{letter['transactionId']}")
    assert cells(page, "reader")["State"] == "finished"
    line = cells(page, "mailer")
    assert line["State"] == "dead letter"
    assert "broken pipe" in line["What happens"]
    assert "12345678901234567890" in page.get_by_label("JSON").inner_text()
    page.get_by_role("button", name="Redrive … for mailer").click()
    page.get_by_role("button", name="Redrive", exact=True).click()
    becomes(page, "mailer", "State", "waits")
    page.get_by_role("button", name="Give up … for mailer").click()
    page.get_by_label("Why, for those").fill("not wanted")
    page.get_by_role("button", name="Give it up").click()
    becomes(page, "mailer", "State", "dead letter")
    assert api.get("/dlq", queue=queue)["messages"][0]["errorMessage"] == "not wanted"


def test_a_trace_is_a_waterfall_through_the_queues(api, visit, queue):
    for n, name in enumerate((queue, f"{queue}-mail", f"{queue}-done")):
        api.push(name, {"step": n}, traceId=TRACE)
    page = visit("traces")
    page.get_by_label("Trace id").fill(TRACE)
    page.get_by_role("button", name="Show its way").click()
    shown(page, "3 messages")
    steps = api.get(f"/traces/id/{TRACE}")["messages"]
    told = page.locator(".waterfall .step a").all_inner_texts()
    assert told == [step["queue"] for step in steps]
    assert page.locator(".waterfall .took").first.inner_text().startswith("+0 s")


def test_events_are_found_by_their_name(api, visit, queue):
    [result] = api.push(queue, 1)
    event = {"transactionId": result["transaction_id"], "partitionId": result["partition_id"], "data": {"pages": 2}}
    api.post("/traces", event | {"eventType": "printed", "traceNames": [f"run of {queue}"]})
    page = visit("traces")
    page.get_by_role("link", name=f"run of {queue}").click()
    assert cells(page, "printed")["Data"] == '{"pages":2}'
    page.get_by_role("link", name=f"{queue} / Default").click()
    shown(page, "What consumers noted about it")
    shown(page, "printed")


def test_the_server_page_shows_the_server_and_its_database(api, visit):
    page = visit("server")
    shown(page, "Oldest transaction")
    page.locator(".checks li").first.wait_for()
    database = api.get("/analytics/postgres-stats")["database"]
    assert database["version"].split(" ")[0] in page.get_by_label("PostgreSQL").first.inner_text()
    assert page.locator(".checks li").count() == len(api.get("/doctor")["checks"])
    [largest, *_] = api.get("/analytics/postgres-stats")["tables"]
    assert re.fullmatch(r"[\d.]+ (KiB|MiB)", cells(page, largest["name"])["Size"])


def test_deliveries_are_paused_and_resumed_for_all_servers(api, visit, queue):
    page = visit("server")
    page.get_by_role("button", name="Pause deliveries …").click()
    page.get_by_role("button", name="Pause deliveries", exact=True).click()
    shown(page, "Deliveries are paused.")
    assert api.get("/system/maintenance/pop") == {"enabled": True}
    page.get_by_role("button", name="Resume deliveries …").click()
    page.get_by_role("button", name="Resume", exact=True).click()
    until_now("deliveries go on", lambda: api.get("/system/maintenance/pop") == {"enabled": False})


def test_lanes_show_each_partition_and_open_it(api, visit, queue):
    for name in ("ann", "bob", "cem"):
        api.push(queue, 1, partition=name)
    api.pop(queue, consumerGroup="g")
    page = visit(f"queues/{queue}?tab=partitions&group=g")
    lanes = page.locator(".lanes canvas")
    lanes.wait_for()
    until_now("three lanes", lambda: "1 leased, 2 waiting" in lanes.get_attribute("aria-label"))
    lanes.click(position={"x": 5, "y": 5})
    page.get_by_role("heading", name=re.compile("ann|bob|cem"), level=1).wait_for()
