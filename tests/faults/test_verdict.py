"""The judge of the chaos test is tested too: a history that keeps every promise, and one for each that is broken."""

import copy

import pytest

from tests.faults.chaos.history import History
from tests.faults.chaos.verdict import complaints

SECOND = 1_000_000


class Story:
    """A history in the making: things happen one second after the other."""

    def __init__(self):
        self.now = 0
        self.lines = []
        self.orders = {"p1": []}
        self.receipts = {"p1": []}

    def call(self, what, name, intent, answer, seconds=0.1):
        self.now += SECOND
        self._line(name, what + "?", intent)
        self.now += int(seconds * SECOND)
        if answer is not None:
            self._line(name, what, answer)

    def _line(self, name, what, facts):
        self.lines.append({"call": name, "what": what, "t": self.now, "clock": self.now, **facts})

    def push(self, value, offset, *, stored=True, answered=True):
        if stored:
            self.orders["p1"].append(value)
        answer = {"answers": [[offset, False]]} if answered else None
        self.call("push", f"push {value}", {"messages": [["p1", value, None]]}, answer)

    def pop(self, name, lease, offsets, seconds=60):
        starts = self.now + SECOND + 1
        messages = [[offset, self.orders["p1"][offset]] for offset in offsets]
        leases = [[lease, "p1", starts, starts + seconds * SECOND, messages]]
        self.call("pop", name, {"group": "g"}, {"group": "g", "leases": leases})

    def ack(self, name, lease, offsets, *, accepted=True, status="completed"):
        acks = [["p1", offset, status] for offset in offsets]
        answer = None if accepted is None else {"accepted": [accepted] * len(acks)}
        self.call("ack", name, {"group": "g", "lease": lease, "acks": acks}, answer)

    def transact(self, name, lease, offsets, *, done=True, written=None):
        receipts = [["p1", f"{name}|g|{self.orders['p1'][offset]}"] for offset in offsets]
        self.receipts["p1"] += [value for _, value in receipts][: len(receipts) if written is None else written]
        acks = [["p1", offset, "completed"] for offset in offsets]
        intent = {"group": "g", "lease": lease, "acks": acks, "receipts": receipts}
        self.call("transact", name, intent, None if done is None else {"done": done})

    def verdict(self):
        lines = copy.deepcopy(self.lines)
        found = complaints(History(lines, self.orders, self.receipts), ["g"], "drain")
        return {complaint.partition(":")[0] for complaint in found}


@pytest.fixture
def story():
    story = Story()
    for number in range(4):
        story.push(f"a:{number}:p1", number)
    return story


@pytest.fixture
def drained(story):
    story.pop("drain/1", "L1", [0, 1, 2, 3])
    story.ack("drain/2", "L1", [0, 1, 2, 3])
    assert story.verdict() == set()
    return story


def test_a_history_without_blemish(story):
    story.pop("w/1", "L1", [0, 1])
    story.ack("w/2", "L1", [0])
    story.transact("w/3", "L1", [1])
    story.pop("w/4", "L2", [2, 3], seconds=1)
    story.now += SECOND  # the lease expires
    story.ack("w/5", "L2", [2, 3], accepted=False)
    story.pop("drain/1", "L3", [2, 3])
    story.ack("drain/2", "L3", [2, 3])
    assert story.verdict() == set()


def test_an_answered_push_is_missing(drained):
    drained.push("a:4:p1", 4, stored=False)
    assert drained.verdict() == {"pushed_once"}


def test_a_push_is_stored_twice(story):
    story.push("a:4:p1", 4, answered=False)
    story.orders["p1"].append("a:4:p1")
    story.pop("drain/1", "L1", range(6))
    assert story.verdict() == {"pushed_once"}


def test_an_unanswered_push_may_be_missing(drained):
    drained.push("a:4:p1", 4, stored=False, answered=False)
    assert drained.verdict() == set()


def test_messages_lie_in_the_wrong_order(story):
    story.push("a:6:p1", 4)
    story.push("a:5:p1", 5)
    story.pop("drain/1", "L1", range(6))
    assert story.verdict() == {"in_push_order"}


def test_a_value_differs(drained):
    drained.lines[-3]["leases"][0][4][0][1] = "something else"
    assert drained.verdict() == {"values_agree"}


def test_first_deliveries_out_of_order(story):
    story.pop("w/1", "L1", [1])
    story.ack("w/2", "L1", [1])
    story.pop("drain/1", "L2", [0, 2, 3])
    assert story.verdict() == {"first_deliveries_in_order"}


def test_something_done_comes_back(story):
    story.pop("w/1", "L1", [0])
    story.ack("w/2", "L1", [0])
    story.pop("drain/1", "L2", [0, 1, 2, 3])
    assert story.verdict() == {"nothing_done_comes_back"}


def test_two_holders_at_a_time(story):
    story.pop("w/1", "L1", [0, 1])
    story.ack("w/2", "L1", [0], accepted=None)
    story.pop("drain/1", "L2", [0, 1, 2, 3])
    assert story.verdict() == {"one_holder_at_a_time"}


def test_a_pop_may_have_read_the_clock_before_the_holder_was_done(story):
    story.pop("w/1", "L1", [0, 1])
    story.ack("w/2", "L1", [0, 1])
    story.pop("drain/1", "L2", [2, 3])
    story.lines[-1]["leases"][0][2] -= 2 * SECOND  # before the ack was sent
    assert story.verdict() == set()


def test_a_pop_that_read_the_clock_early_took_what_the_holder_was_not_done_with(story):
    story.pop("w/1", "L1", [0, 1])
    story.ack("w/2", "L1", [0, 1], accepted=False)
    story.pop("drain/1", "L2", [0, 1, 2, 3])
    story.lines[-1]["leases"][0][2] -= 2 * SECOND
    assert story.verdict() == {"one_holder_at_a_time"}


def test_a_holder_is_heard_after_the_next_one_got_an_answer(story):
    story.pop("w/1", "L1", [0])
    story.call("release", "w/2", {"lease": "L1"}, {"released": True})
    story.pop("drain/1", "L2", [0, 1, 2, 3])
    story.ack("w/3", "L1", [0])
    assert story.verdict() == {"only_holders_are_heard"}


def test_a_renewal_that_was_answered_counts(story):
    story.pop("w/1", "L1", [0], seconds=1)
    story.call("renew", "w/2", {"lease": "L1", "seconds": 60}, {"expires": story.now + 60 * SECOND})
    story.pop("drain/1", "L2", [0, 1, 2, 3])
    assert story.verdict() == {"one_holder_at_a_time"}


def test_a_renewal_that_was_not_answered_may_not(story):
    story.pop("w/1", "L1", [0], seconds=2)
    story.call("renew", "w/2", {"lease": "L1", "seconds": 0.5}, None)
    story.pop("drain/1", "L2", [0, 1, 2, 3])
    assert story.verdict() == set()


def test_a_release_ends_a_lease(story):
    story.pop("w/1", "L1", [0])
    story.call("release", "w/2", {"lease": "L1"}, {"released": True})
    story.pop("drain/1", "L2", [0, 1, 2, 3])
    assert story.verdict() == set()


def test_an_expired_holder_is_heard(story):
    story.pop("w/1", "L1", [0], seconds=1)
    story.now += SECOND
    story.ack("w/2", "L1", [0])
    story.pop("drain/1", "L2", [1, 2, 3])
    assert story.verdict() == {"only_holders_are_heard"}


@pytest.mark.parametrize(("done", "written"), [(True, 1), (None, 1), (True, 0), (False, 2)])
def test_half_a_transaction(story, done, written):
    story.pop("w/1", "L1", [0, 1])
    story.transact("w/2", "L1", [0, 1], done=done, written=written)
    story.pop("drain/1", "L2", [0, 1, 2, 3] if written == 0 else [2, 3])
    assert "transactions_whole" in story.verdict()


def test_an_unanswered_transaction_is_judged_by_its_receipts(story):
    story.pop("w/1", "L1", [0, 1])
    story.transact("w/2", "L1", [0, 1], done=None)
    story.pop("drain/1", "L2", [2, 3])
    assert story.verdict() == set()
    story.receipts["p1"].clear()
    assert "what_was_left_is_delivered" in story.verdict()


def test_two_receipts_for_one_message(story):
    story.pop("w/1", "L1", [0], seconds=1)
    story.transact("w/2", "L1", [0], done=None)
    story.pop("w/3", "L2", [0])
    story.transact("w/4", "L2", [0])
    story.pop("drain/1", "L3", [1, 2, 3])
    assert story.verdict() == {"transactions_whole"}


def test_a_message_never_arrives(story):
    story.pop("drain/1", "L1", [0, 1, 2])
    assert story.verdict() == {"everyone_gets_everything", "what_was_left_is_delivered"}


def test_a_message_is_forgotten_after_its_first_delivery(story):
    story.pop("w/1", "L1", [0, 1, 2, 3], seconds=1)
    story.ack("w/2", "L1", [0], accepted=False)
    story.now += SECOND
    story.pop("drain/1", "L2", [1, 2, 3])
    assert story.verdict() == {"what_was_left_is_delivered"}
