"""What people change from the pages: it happens, it is seen at once, and it is what the API then says."""

import json

import pytest

from tests.dashboard.conftest import becomes, cells, shown
from tests.waits import until_now


@pytest.fixture
def visit(page, api):
    """Open a page of the dashboard: visit("queues/orders")."""

    def opened(address):
        page.goto(f"{api.url}/#/{address}")
        page.get_by_role("heading", level=1).wait_for()
        return page

    return opened


def stat(page, label):
    return page.locator(".stat", has=page.locator("dt", has_text=label)).locator("dd").first.inner_text()


def test_a_push_is_seen_without_a_reload(api, visit, queue):
    api.push(queue, 1)
    page = visit(f"queues/{queue}")
    until_now("one message waits", lambda: stat(page, "Backlog") == "1 message")
    api.push(queue, 2, 3)
    until_now("three messages wait", lambda: stat(page, "Backlog") == "3 messages")


def test_a_test_message_is_pushed_as_it_was_typed(api, visit, queue):
    api.push(queue, "first")
    page = visit(f"queues/{queue}")
    page.get_by_role("button", name="Push a message").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Partition").fill("ann/1")
    dialog.get_by_label("Payload").fill('{"big": 12345678901234567890, "text": "ünï")')
    shown(page, "This is not JSON yet")
    dialog.get_by_label("Payload").fill('{"big": 12345678901234567890, "text": "ünï"}')
    dialog.get_by_role("button", name="Push").click()
    shown(page, f"Stored in {queue}, partition ann/1.")
    found = api.get("/messages", queue=queue, partition="ann/1")["messages"]
    assert [message["data"] for message in found] == [{"big": 12345678901234567890, "text": "ünï"}]


def test_a_refusal_is_shown_in_the_dialog(api, open_page, queue):
    api.post("/configure", {"queue": queue, "options": {"maxSize": 1}})
    api.push(queue, 1)
    page = open_page(tolerated="429")
    page.goto(f"{api.url}/#/queues/{queue}")
    page.get_by_role("button", name="Push a message").click()
    page.get_by_role("dialog").get_by_role("button", name="Push").click()
    refusal = page.get_by_role("dialog").get_by_role("alert")
    refusal.wait_for()
    assert "is full: 1 messages are waiting and 1 is the limit" in refusal.inner_text()


def test_a_group_is_moved_after_a_look_at_what_that_means(api, visit, queue):
    api.push(queue, 1, 2, 3, 4)
    api.pop(queue, consumerGroup="g", batch=3, autoAck="true")
    page = visit(f"queues/{queue}?tab=groups")
    page.get_by_role("button", name=f"Seek g on {queue}").click()
    shown(page, "The group skips the 1 message that it has not finished.")
    page.get_by_label("The beginning").check()
    shown(page, "The group gets all 4 stored messages, also those it has finished.")
    page.get_by_role("button", name="Move the group").click()
    shown(page, f"g moved in 1 partition of {queue}.")
    becomes(page, "g", "Lag, messages", "4")
    assert api.lag(queue, "g") == 4


def test_a_queue_and_a_group_are_paused_and_resumed(api, visit, queue):
    api.push(queue, 1)
    api.pop(queue, consumerGroup="g")
    page = visit(f"queues/{queue}?tab=groups")

    def switch(verb, name, tells):
        page.get_by_role("button", name=f"{verb} {name}", exact=True).click()
        page.get_by_role("dialog").get_by_role("button", name=verb, exact=True).click()
        shown(page, tells)

    def is_paused():
        [group] = [each for each in api.get("/consumer-groups") if each["queueName"] == queue]
        return api.get(f"/status/queues/{queue}")["queue"]["paused"], group["paused"]

    switch("Pause", queue, f"Deliveries of {queue} are paused.")
    assert is_paused() == (True, True)  # no group gets anything
    switch("Resume", f"g on {queue}", f"g on {queue} is not paused itself: its queue is. Resume {queue}.")
    switch("Resume", queue, f"Deliveries of {queue} go on.")
    switch("Pause", f"g on {queue}", f"Deliveries of g on {queue} are paused.")
    becomes(page, "g", "State", "stable paused")
    assert is_paused() == (False, True)
    page.goto(f"{api.url}/#/")
    shown(page, f"Deliveries of g on {queue} are paused.")
    page.goto(f"{api.url}/#/queues/{queue}?tab=groups")
    switch("Resume", f"g on {queue}", f"Deliveries of g on {queue} go on.")
    assert is_paused() == (False, False)


def test_a_group_is_forgotten(api, visit, queue):
    api.push(queue, 1)
    api.pop(queue, consumerGroup="g")
    page = visit(f"groups?search={queue}")
    page.get_by_role("button", name=f"Forget g on {queue}").click()
    page.get_by_role("button", name="Forget it").click()
    shown(page, f"g is forgotten on {queue}.")
    shown(page, "is named like this")
    assert [each for each in api.get("/consumer-groups") if each["queueName"] == queue] == []


def test_settings_are_changed_one_by_one_with_their_effect_in_words(api, visit, queue):
    api.post("/configure", {"queue": queue, "options": {"retryLimit": 5}})
    page = visit(f"queues/{queue}?tab=settings")
    shown(page, "A message that fails is delivered 5 times more before it is given up.")
    page.get_by_label("leaseTime").fill("90")
    shown(page, "keeps it for 1 min 30 s")
    page.get_by_label("encryptionEnabled").wait_for()
    page.get_by_role("button", name="Save leaseTime").click()
    shown(page, "Saved: leaseTime.")
    options = api.get(f"/resources/queues/{queue}")["options"]
    assert (options["leaseTime"], options["retryLimit"]) == (90, 5)


def test_dead_letters_are_grouped_by_what_they_died_of(api, visit, queue):
    api.bury(queue, 1, 2, error="Timeout after 31 s at host 7")
    api.bury(queue, 3, error="no such field: 'name'")
    page = visit(f"dead-letters?queue={queue}")
    assert cells(page, "Timeout after … s at host …")["Letters"] == "2"
    assert cells(page, "no such field: '…'")["Letters"] == "1"


def test_one_dead_letter_is_redriven(api, visit, queue):
    api.bury(queue, {"n": 1}, {"n": 2}, error="broken")
    page = visit(f"dead-letters?queue={queue}")
    page.get_by_role("button", name="Inspect Default 0").click()
    assert json.loads(page.get_by_label("JSON").inner_text()) == {"n": 1}
    page.get_by_role("button", name="Redrive", exact=True).click()
    shown(page, "Default 0 is delivered again to workers.")
    assert [message["data"] for message in api.pop(queue, consumerGroup="workers")] == [{"n": 1}]
    becomes(page, "broken", "Letters", "1")


def test_all_that_died_of_the_same_are_redriven(api, visit, queue):
    api.bury(queue, 1, 2, 3, error="Timeout after 31 s")
    api.bury(queue, 4, error="bad payload")
    page = visit(f"dead-letters?queue={queue}")
    page.get_by_role("link", name="Timeout after … s").click()
    page.get_by_role("button", name="Redrive all dead letters with the error “Timeout after … s”").click()
    page.get_by_role("button", name="Redrive 3").click()
    shown(page, "3 dead letters delivered again.")
    until_now("one is left", lambda: api.get("/dlq", queue=queue)["total"] == 1)
    assert api.lag(queue, "workers") == 3


def test_an_edited_copy_replaces_a_dead_letter(api, visit, queue):
    api.bury(queue, {"to": "nobody", "id": 9007199254740993}, error="no such address")
    page = visit(f"dead-letters?queue={queue}")
    page.get_by_role("button", name="Inspect").click()
    page.get_by_role("button", name="Edit a copy").click()
    payload = page.get_by_label("Payload, in JSON")
    payload.fill(payload.input_value().replace("nobody", "ann"))
    page.get_by_label("Delete the dead letter").check()
    page.get_by_role("button", name="Push", exact=True).click()
    shown(page, "Stored in")
    [message] = api.pop(queue, consumerGroup="workers")
    assert message["data"] == {"to": "ann", "id": 9007199254740993}
    until_now("the dead letter is gone", lambda: api.get("/dlq", queue=queue)["total"] == 0)


def test_dead_letters_are_purged_after_a_word_was_typed(api, visit, queue):
    api.bury(queue, 1, 2, error="broken")
    page = visit(f"dead-letters?queue={queue}")
    page.get_by_role("button", name="Purge all dead letters shown here").click()
    verb = page.get_by_role("button", name="Delete 2")
    assert verb.is_disabled()
    page.get_by_label("to go on").fill("purge")
    verb.click()
    shown(page, "2 dead letters deleted.")
    assert api.get("/dlq", queue=queue)["total"] == 0


def test_a_queue_is_created_cleared_and_deleted(api, visit, queue):
    page = visit("queues")
    page.get_by_role("button", name="Create a queue").click()
    page.get_by_label("Name", exact=True).fill(f"{queue}/ü")
    page.get_by_role("button", name="Create", exact=True).click()
    page.get_by_role("heading", name=f"{queue}/ü", level=1).wait_for()
    api.push(f"{queue}/ü", 1, 2)
    page.get_by_role("button", name="Clear").click()
    page.get_by_label("to go on").fill(f"{queue}/ü")
    page.get_by_role("button", name="Drop all messages").click()
    shown(page, f"2 messages dropped from {queue}/ü.")
    page.get_by_role("button", name="Delete").click()
    page.get_by_label("to go on").fill(f"{queue}/ü")
    page.get_by_role("button", name="Delete the queue").click()
    shown(page, f"The queue {queue}/ü is deleted.")
    assert api.get("/resources/queues", search=queue)["total"] == 0
