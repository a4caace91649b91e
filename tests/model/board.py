"""The board of the game: the queue on paper and the queue in PostgreSQL side by side, compared after every move."""

import itertools
from collections import Counter
from typing import Any, ClassVar

from hypothesis.stateful import RuleBasedStateMachine, invariant

from tests.model.postgres import (
    GROUPS,
    LETTERS,
    PLACES,
    TROUBLE,
    Handle,
    Postgres,
    facts,
    letter_facts,
)
from tests.model.serving import Kind
from tests.model.world import World
from tests.queue_in_sql import NOON

PARTITIONS = ("ann", "bob", "cat", "dan")
HANDLES_MAX = 6


def same(what: str, in_postgres: dict[Any, Any], on_paper: dict[Any, Any]) -> None:
    """Say what differs, and nothing else."""
    different = [
        f"{what} {key}:\n    in PostgreSQL {found}\n    on paper      {expected}"
        for key in {**in_postgres, **on_paper}
        if (found := in_postgres.get(key)) != (expected := on_paper.get(key))
    ]
    assert not different, "\n".join(different)


class Board(RuleBasedStateMachine):
    """Two queues of one namespace, four partitions each, two groups. Names are new for every game."""

    session: ClassVar[Postgres]
    seen: ClassVar[Counter[str]] = Counter()  # how often what happened, in all games
    _number = itertools.count(1)

    def __init__(self) -> None:
        super().__init__()
        number = next(self._number)
        self.queue_names = (f"orders-{number}", f"invoices-{number}")
        self.groups = (f"billing-{number}", f"audit-{number}")
        self.namespace = f"shop-{number}"
        self.world = World(NOON)
        self.session.clock.now = NOON
        self.handles: list[Handle] = []  # newest first; many are stale
        self.ready_since: dict[Kind, Any] = {}
        self.values = itertools.count()
        self.agreed = False

    @property
    def postgres(self) -> Postgres:
        self.agreed = False  # until compared again
        return self.session

    def advance(self, seconds: float) -> None:
        self.session.clock.advance(seconds)
        self.world.now = self.session.clock.now

    @invariant()
    def paper_and_postgres_agree(self) -> None:
        self.seen["moves"] += 1
        self.compare()
        self.advance(0.001)  # so that it is mostly clear what became ready first

    def compare(self) -> None:
        trouble = [row[0] for row in self.postgres.fetch(TROUBLE, self.world.now)]
        assert not trouble, "\n".join(trouble)
        self._compare_groups()
        rows = self.postgres.fetch(PLACES)
        self._compare_partitions(rows)
        self._compare_places(rows)
        self._compare_letters()
        self._compare_pending()
        self.agreed = True

    def _compare_groups(self) -> None:
        rows = self.postgres.fetch(GROUPS)
        for row in rows:
            group = self.world.queues[row["queue"]].groups.get(row["name"])
            if group and group.id is None:
                group.id = row["id"]
        same(
            "groups",
            {(r["queue"], r["name"]): (r["id"], r["queue_wide"], r["complete"]) for r in rows},
            {
                (queue.name, name): (group.id, group.queue_wide, group.complete)
                for queue in self.world.queues.values()
                for name, group in queue.groups.items()
            },
        )

    def _compare_partitions(self, rows: list[Any]) -> None:
        same(
            "partitions",
            {
                (r["queue"], r["partition"]): (r["id"], r["start_offset"], r["next_offset"], r["last_message_at"])
                for r in rows
            },
            {
                (q.name, p.name): (p.id, p.start, p.end, p.used_at)
                for q in self.world.queues.values()
                for p in q.partitions.values()
            },
        )

    def _compare_places(self, rows: list[Any]) -> None:
        places = {(p.queue.name, p.group, p.partition.name): p for p in self.world.all_places()}
        found = {(r["queue"], r["group_name"], r["partition"]): facts(r) for r in rows if r["group_name"]}
        on_paper = {key: place.facts() for key, place in places.items()}
        for key in found.keys() & on_paper.keys():
            if places[key].recounted:
                on_paper[key] |= {count: found[key][count] for count in ("completed", "dead", "expired")}
        same("places", found, on_paper)

    def _compare_letters(self) -> None:
        found = sorted(self.postgres.fetch(LETTERS), key=letter_facts)
        on_paper = sorted(self.world.letters, key=lambda letter: letter.facts())
        same(
            "dead letters",
            dict(enumerate(letter_facts(row) for row in found)),
            dict(enumerate(letter.facts() for letter in on_paper)),
        )
        for letter, row in zip(on_paper, found, strict=True):
            letter.id = row["id"]

    def _compare_pending(self) -> None:
        kinds = [
            Kind(group, queue, partition, None)
            for group in self.groups
            for queue in self.queue_names
            for partition in (None, *PARTITIONS)
        ]
        kinds += [Kind(group, None, None, self.namespace) for group in self.groups]
        rows = self.postgres.call(
            "has_pending_messages",
            [kind.queue for kind in kinds],
            [kind.partition for kind in kinds],
            [kind.namespace for kind in kinds],
            [None] * len(kinds),
            [kind.group for kind in kinds],
            self.world.now,
        )
        found = {kinds[row["item"] - 1]: (row["pending"], row["next_ready_seconds"]) for row in rows}
        same("pending", found, {kind: self.pending(kind) for kind in kinds})

    def pending(self, kind: Kind) -> tuple[bool, float | None]:
        """Is a pop worth while, and if not, in how many seconds may it be?"""
        now, unreached, moments = self.world.now, False, []
        for queue in self.world.queues.values():
            if queue.name != kind.queue and (not kind.namespace or queue.namespace != kind.namespace):
                continue
            group = queue.groups.get(kind.group)
            if queue.paused or (group and group.paused):
                continue
            names = [kind.partition] if kind.partition else list(queue.partitions)
            places = [group.places[name] for name in names if group and name in group.places]
            moments += [place.ready for place in places if place.ready is not None]
            if kind.partition:
                unreached = kind.partition in queue.partitions and not places
            elif not (group and group.queue_wide and group.complete):
                reached = group.reached if group and group.queue_wide else 0
                unreached = unreached or any(p.id > reached for p in queue.partitions.values())
        if unreached or any(moment <= now for moment in moments):
            return True, 0
        return False, min(((moment - now).total_seconds() for moment in moments), default=None)
