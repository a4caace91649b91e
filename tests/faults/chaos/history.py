"""The diaries of all processes put together, next to the log as the database has it in the end."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Place = tuple[str, int]  # partition, offset
Held = tuple[str, str]  # lease, partition
Hand = tuple[str, str]  # group, partition

DONE = ("completed", "dlq")  # never delivered to the group again


@dataclass
class Call:
    """What was intended, and what was answered; nothing, if the process was killed in between."""

    name: str
    what: str
    intent: dict[str, Any]
    answer: dict[str, Any] | None = None


@dataclass
class Lease:
    """A partition in the hands of one consumer; times of the wall clock, in microseconds.

    A pop reads the clock, then claims partitions. In between another holder may answer its last message, and a push
    that waited for that answer, with a time of its own from before, may make the partition ready. So the time at which
    a lease starts may lie before the end of the one before; it was claimed between `starts` and `answered`.
    """

    id: str
    starts: int
    answered: int
    expires: int
    messages: dict[int, Any]
    asked: int  # when the pop was asked for, and when it was answered: the monotonic clock
    given: int
    call: str


@dataclass
class Word:
    """What a holder said of one message, by an ack or in a transaction."""

    status: str
    call: Call
    accepted: bool | None  # None: not answered


@dataclass
class History:
    """What happened, arranged for questions."""

    lines: list[dict[str, Any]]
    orders: dict[str, list[Any]]  # the log: values by partition, at their offsets
    receipts: dict[str, list[Any]]
    calls: list[Call] = field(default_factory=list)
    leases: dict[Hand, list[Lease]] = field(default_factory=lambda: defaultdict(list))
    words: dict[Held, dict[int, list[Word]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    renewals: dict[str, list[Call]] = field(default_factory=lambda: defaultdict(list))
    releases: dict[str, list[Call]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        calls: dict[str, Call] = {}
        for line in self.lines:
            if line["what"].endswith("?"):
                calls[line["call"]] = Call(line["call"], line["what"][:-1], line)
            else:
                calls[line["call"]].answer = line
        self.calls = list(calls.values())
        written = {value for values in self.receipts.values() for value in values}
        for call in self.calls:
            if call.what == "pop" and call.answer is not None:
                self._add_leases(call)
            elif call.what in ("ack", "transact"):
                self._add_words(call, written)
            elif call.what == "renew":
                self.renewals[call.intent["lease"]].append(call)
            elif call.what == "release":
                self.releases[call.intent["lease"]].append(call)
        for leases in self.leases.values():
            leases.sort(key=lambda lease: lease.starts)

    def _add_leases(self, call: Call) -> None:
        assert call.answer is not None
        asked, answer = call.intent["t"], call.answer
        for id, partition, starts, expires, messages in answer["leases"]:
            lease = Lease(id, starts, answer["clock"], expires, dict(messages), asked, answer["t"], call.name)
            self.leases[answer["group"], partition].append(lease)

    def _add_words(self, call: Call, written: set[Any]) -> None:
        said = call.intent["acks"]
        if call.what == "ack":
            accepted = call.answer["accepted"] if call.answer else [None] * len(said)
        elif call.answer is not None:
            accepted = [call.answer["done"]] * len(said)
        else:  # its receipts tell whether it happened
            accepted = [any(value in written for _, value in call.intent["receipts"])] * len(said)
        for (partition, offset, status), was_accepted in zip(said, accepted, strict=True):
            self.words[call.intent["lease"], partition][offset].append(Word(status, call, was_accepted))

    def of(self, what: str) -> Iterator[Call]:
        return (call for call in self.calls if call.what == what)

    def handed(self) -> Iterator[tuple[str, str, Lease, list[tuple[int, list[Word]]]]]:
        """Every lease with its group and partition, and what was said of its messages."""
        for (group, partition), leases in self.leases.items():
            for lease in leases:
                said = self.words.get((lease.id, partition), {})
                yield group, partition, lease, list(said.items())

    def expiry(self, lease: Lease) -> int:
        """When a lease ended by itself, at the earliest: renewals count as far as they are known."""
        expires = lease.expires
        for call in self.renewals.get(lease.id, []):
            if call.answer is None:  # it may have happened, and may have made it shorter
                expires = min(expires, call.intent["clock"] + round(call.intent["seconds"] * 1_000_000))
            elif call.answer["expires"] is not None:
                expires = call.answer["expires"]
        return expires

    def last_expiry(self, lease: Lease) -> int:
        """When a lease had ended by itself, at the latest."""
        expires = self.expiry(lease)
        for call in self.renewals.get(lease.id, []):
            if call.answer is None:
                return max(expires, lease.expires, call.intent["clock"] + 60_000_000)
        return expires

    def may_have_ended(self, lease: Lease, partition: str, before: int) -> bool:
        """Whether its holder had given it back, or may have answered all of it, by some time."""
        if any(call.intent["clock"] < before for call in self.releases.get(lease.id, [])):
            return True
        said = self.words.get((lease.id, partition), {})
        return all(
            any(word.accepted is not False and word.call.intent["clock"] < before for word in said.get(offset, []))
            for offset in lease.messages
        )
