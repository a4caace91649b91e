"""What was written down, and what must be true of it."""

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Place = tuple[str, int]  # partition, offset


def read(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """All lines in the order of time; the clock is one for all processes. A line cut off by a kill is left out."""
    lines = [line for path in paths for line in path.read_bytes().splitlines()]
    events = []
    for line in lines:
        try:
            events.append(json.loads(line))
        except ValueError:
            continue
    return sorted(events, key=lambda event: event["at"])


class History:
    """The events by kind, next to the log as the database has it in the end."""

    def __init__(self, events: list[dict[str, Any]], log: dict[str, dict[Place, str]]) -> None:
        self.events = events
        self.orders = log["orders"]
        self.derived = log["derived"]

    def of(self, what: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["what"] == what]

    def check_pushes(self) -> None:
        """What was answered is where it was said to be; nothing is there twice; a producer's order is kept."""
        assert len(set(self.orders.values())) == len(self.orders)
        tried = {value for event in self.of("push?") for _, value in event["values"]}
        assert set(self.orders.values()) <= tried
        last: dict[tuple[str, str], int] = {}
        for event in self.of("push"):
            for partition, value, offset in event["values"]:
                assert self.orders[partition, offset] == value
                assert last.get((event["worker"], partition), -1) < offset
                last[event["worker"], partition] = offset

    def check_deliveries(self, groups: Iterable[str]) -> None:
        """Every message reached every group, with the right content, and for the first time in order."""
        seen: dict[str, set[Place]] = defaultdict(set)
        reached: dict[tuple[str, str], int] = defaultdict(lambda: -1)
        for event in self.of("pop"):
            group = event["group"]
            for partition, offset, value in event["messages"]:
                assert self.orders[partition, offset] == value
                if (partition, offset) not in seen[group]:
                    assert offset > reached[group, partition], f"{group} {partition}: {offset} after its successor"
                    seen[group].add((partition, offset))
                    reached[group, partition] = offset
        done = self.completed()
        for group in groups:
            missing = set(self.orders) - seen[group] - done[group].keys()
            # A consumer killed between its answer and its diary leaves no line; the message came again to another.
            assert not missing, f"{group} never saw {sorted(missing)[:5]}"

    def completed(self) -> dict[str, dict[Place, int]]:
        """When a completed ack was answered, by group and message."""
        done: dict[str, dict[Place, int]] = defaultdict(dict)
        for event in self.of("ack"):
            for partition, offset, status, accepted in event["acks"]:
                if status == "completed" and accepted:
                    done[event["group"]].setdefault((partition, offset), event["at"])
        return done

    def check_acks(self) -> None:
        """Nothing that was completed is delivered by a pop that began later."""
        done = self.completed()
        for event in self.of("pop"):
            for partition, offset, _ in event["messages"]:
                at = done[event["group"]].get((partition, offset))
                assert at is None or event["asked"] < at, f"{partition}/{offset} came back after its ack"

    def check_leases(self) -> None:
        """A partition changes hands only when its lease has expired or its holder has answered."""
        answered: dict[str, int] = {}
        for event in self.of("ack?"):
            answered.setdefault(event["lease"], event["at"])
        expires = {event["lease"]: event["expires"] for event in self.events if event["what"] in ("pop", "renew")}
        renewing = {event["lease"] for event in self.of("renew?")}
        holder: dict[tuple[str, str], str] = {}
        for event in self.of("pop"):
            for partition in {message[0] for message in event["messages"]}:
                before = holder.get((event["group"], partition))
                if before is not None and before not in renewing:
                    gone = expires[before] <= event["clock"] or answered.get(before, event["at"]) < event["at"]
                    assert gone, f"{partition} was given to {event['lease']} while {before} held it"
                holder[event["group"], partition] = event["lease"]

    def check_transactions(self) -> None:
        """What was derived under an ack is there exactly once."""
        assert len(set(self.derived.values())) == len(self.derived)
        assert {value for event in self.of("derived") for _, value in event["values"]} <= set(self.derived.values())
