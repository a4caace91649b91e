"""What must be true of a history. A check answers complaints; no complaints, and the promise was kept."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice, pairwise
from typing import Any

from tests.faults.chaos.history import DONE, Hand, History, Place

COMPLAINTS_MAX = 10  # of each check


def complaints(history: History, groups: Iterable[str], drain: str) -> list[str]:
    """Everything that is wrong; `drain` is the name of the process that read what was left."""
    found: list[str] = []
    for check in (
        pushed_once,
        in_push_order,
        values_agree,
        first_deliveries_in_order,
        nothing_done_comes_back,
        one_holder_at_a_time,
        only_holders_are_heard,
        transactions_whole,
    ):
        found += _some(check.__name__, check(history))
    found += _some("everyone_gets_everything", everyone_gets_everything(history, groups))
    found += _some("what_was_left_is_delivered", what_was_left_is_delivered(history, groups, drain))
    return found


def _some(name: str, found: Iterator[str]) -> list[str]:
    return [f"{name}: {complaint}" for complaint in islice(found, COMPLAINTS_MAX)]


def pushed_once(history: History) -> Iterator[str]:
    """What was answered is where it was said to be; nothing is there twice; nothing is there that nobody pushed."""
    places: dict[Any, list[Place]] = defaultdict(list)
    for partition, values in history.orders.items():
        for offset, value in enumerate(values):
            places[value].append((partition, offset))
    intended = set()
    for call in history.calls:
        if call.what not in ("push", "outbox"):
            continue
        answers = (call.answer or {}).get("answers", [])
        for number, (partition, value, _) in enumerate(call.intent["messages"]):
            intended.add((partition, value))
            if call.answer is not None and len(places[value]) != 1:
                yield f"{value} was answered and is stored {len(places[value])} times"
            elif answers and places[value] != [(partition, answers[number][0])]:
                yield f"{value} was answered {answers[number]} and is at {places[value]}"
    for value, where in places.items():
        if len(where) > 1:
            yield f"{value} is at {where}"
        yield from (f"nobody pushed {value} to {p}" for p, _ in where if (p, value) not in intended)


def in_push_order(history: History) -> Iterator[str]:
    """Per producer and partition, messages lie in the order in which they were pushed."""
    answered = {
        value
        for call in history.calls
        if call.what in ("push", "outbox") and call.answer is not None
        for _, value, _ in call.intent["messages"]
    }
    outbox = {value for call in history.of("outbox") for _, value, _ in call.intent["messages"]}
    for partition, values in history.orders.items():
        last: dict[tuple[str, bool], int] = {}
        for value in values:
            if value in answered:
                producer, number, _ = value.split(":")
                way = producer, value in outbox  # the outbox is another way in, and overtaken by pushes
                if last.get(way, -1) > int(number):
                    yield f"{partition}: {value} lies behind number {last[way]}"
                last[way] = int(number)


def values_agree(history: History) -> Iterator[str]:
    """Whatever is delivered from an offset is what is stored there."""
    for group, partition, lease, _ in history.handed():
        for offset, value in lease.messages.items():
            if history.orders[partition][offset] != value:
                yield f"{group} got {value} from {partition}/{offset}, where {history.orders[partition][offset]} is"
        if list(lease.messages) != sorted(lease.messages):
            yield f"{group} got {partition} in the order {list(lease.messages)}"


def first_deliveries_in_order(history: History) -> Iterator[str]:
    """A group sees the messages of a partition for the first time in their order."""
    first: dict[Hand, dict[int, int]] = defaultdict(dict)
    for group, partition, lease, _ in history.handed():
        seen = first[group, partition]
        for offset in lease.messages:
            seen[offset] = min(seen.get(offset, lease.given), lease.given)
    for (group, partition), seen in first.items():
        latest = 0
        for offset in sorted(seen):
            if seen[offset] < latest:
                yield f"{group} saw {partition}/{offset} before its predecessors"
            latest = max(latest, seen[offset])


def nothing_done_comes_back(history: History) -> Iterator[str]:
    """After the answer to a completed or buried message the group does not get it again."""
    done: dict[tuple[str, Place], tuple[int, int]] = {}
    for group, partition, _, said in history.handed():
        for offset, words in said:
            for word in words:
                answer = word.call.answer
                if word.status in DONE and word.accepted and answer is not None:
                    times = answer["t"], answer["clock"]
                    done[group, (partition, offset)] = min(done.get((group, (partition, offset)), times), times)
    for group, partition, lease, _ in history.handed():
        for offset in lease.messages:
            t, clock = done.get((group, (partition, offset)), (None, None))
            if t is not None and clock is not None and (lease.asked > t or lease.starts > clock):
                yield f"{group} got {partition}/{offset} after it was done, by {lease.call}"


def one_holder_at_a_time(history: History) -> Iterator[str]:
    """A lease begins when the one before was answered, released or has expired."""
    for (group, partition), leases in history.leases.items():
        for before, after in pairwise(leases):
            if after.starts < history.expiry(before) and not history.may_have_ended(before, partition, after.answered):
                early = history.expiry(before) - after.starts
                yield f"{partition} went to {after.call} of {group} {early} us before {before.call} had to let go"


def only_holders_are_heard(history: History) -> Iterator[str]:
    """What is said after a lease has ended, or under the next one, is not accepted."""
    for (group, partition), leases in history.leases.items():
        for lease, after in zip(leases, [*leases[1:], None], strict=True):
            ends = history.last_expiry(lease) if after is None else min(history.last_expiry(lease), after.answered)
            for offset, words in history.words.get((lease.id, partition), {}).items():
                for word in words:
                    late = word.call.intent["clock"] - ends
                    if word.accepted and word.call.answer is not None and late > 0:
                        yield f"{group} was heard about {partition}/{offset} {late} us late, by {word.call.name}"


def transactions_whole(history: History) -> Iterator[str]:
    """A transaction wrote all of its receipts or none, and no message has two."""
    written: dict[Any, int] = defaultdict(int)
    for partition, values in history.receipts.items():
        for value in values:
            written[partition, value] += 1
    origins: dict[str, int] = defaultdict(int)
    for call in history.of("transact"):
        found = [written.pop((partition, value), 0) for partition, value in call.intent["receipts"]]
        done = call.answer["done"] if call.answer is not None else None
        if len(set(found)) != 1 or found[0] > 1 or (done is not None and found[0] != done):
            yield f"{call.name} was answered {done} and wrote {found}"
        for _, value in call.intent["receipts"] if found[0] else []:
            origins[value.partition("|")[2]] += 1
    yield from (f"nobody wrote the receipt {value}" for value in written)
    yield from (f"{origin} has {count} receipts" for origin, count in origins.items() if count > 1)


def everyone_gets_everything(history: History, groups: Iterable[str]) -> Iterator[str]:
    """Every stored message was delivered to every group, to a process that lived to write it down."""
    for group in groups:
        for partition, values in history.orders.items():
            seen = {offset for lease in history.leases[group, partition] for offset in lease.messages}
            yield from (f"{group} never got {partition}/{o}" for o in range(len(values)) if o not in seen)


def what_was_left_is_delivered(history: History, groups: Iterable[str], drain: str) -> Iterator[str]:
    """A message that nobody may have done is among those that were read in the end."""
    for group in groups:
        for partition, values in history.orders.items():
            done, drained = set(), set()
            for lease in history.leases[group, partition]:
                if lease.call.startswith(drain + "/"):
                    drained |= lease.messages.keys()
                else:
                    for offset, words in history.words.get((lease.id, partition), {}).items():
                        if any(word.status in DONE and word.accepted is not False for word in words):
                            done.add(offset)
            yield from (
                f"{group} was never done with {partition}/{offset}, and did not get it in the end"
                for offset in range(len(values))
                if offset not in done | drained
            )
