# Generated from client/dead_letters.py by `make sync-client`: edit that file, not this one.
"""Dead letters: `queen.dead_letters`."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from queenmq.api import dead_letters
from queenmq.errors import InvalidArgument, InvalidName

if TYPE_CHECKING:
    from queenmq.client.sync.queen import Queen


class DeadLetters:
    """Messages that groups gave up: look at them, deliver them again, throw them away."""

    def __init__(self, queen: "Queen") -> None:
        self._queen = queen

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._queen!r}>"

    def list(
        self,
        *,
        queue: str | None = None,
        group: str | None = None,
        partition: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 100,
        skip: int = 0,
    ) -> dead_letters.DeadLetterPage:
        """Dead letters, newest first, and how many there are in all."""
        _check_named(queue=queue, group=group, partition=partition)
        return self._queen.call(
            dead_letters.ListDeadLetters(
                queue=queue, group=group, partition=partition, since=since, until=until, limit=limit, skip=skip
            )
        )

    def redrive(
        self,
        *,
        ids: Sequence[str] | None = None,
        queue: str | None = None,
        group: str | None = None,
        limit: int = dead_letters.IDS_MAX,
    ) -> int:
        """Deliver dead letters again to the groups that gave them up, the oldest first; answers how many."""
        if ids is None and queue is None and group is None:
            raise InvalidArgument("say which dead letters to deliver again: ids, a queue or a group")
        _check_named(queue=queue, group=group)
        if ids is not None and not ids:
            return 0
        named = None if ids is None else list(ids)
        call = dead_letters.Redrive(ids=named, queue=queue, group=group, limit=limit)
        return (self._queen.call(call)).redriven

    def purge(
        self,
        *,
        ids: Sequence[str] | None = None,
        queue: str | None = None,
        group: str | None = None,
        older_than: datetime | None = None,
    ) -> int:
        """Delete dead letters for good, all that are not excluded; answers how many."""
        _check_named(queue=queue, group=group)
        if ids is not None and not ids:  # none are none: not those that the other filters leave
            return 0
        named = None if ids is None else list(ids)
        call = dead_letters.Purge(ids=named, queue=queue, group=group, older_than=older_than)
        return (self._queen.call(call)).purged


def _check_named(**names: str | None) -> None:
    """Refuse an empty name: it names nobody, and must not be taken for one that was left out."""
    for what, name in names.items():
        if name == "":
            raise InvalidName(f"the {what} name is empty; leave it out to mean every {what}")
