"""Where ready partitions begin, by kind of pop: what `queen.pop_batch` answers as ready_since."""

from collections.abc import Iterable
from datetime import datetime
from time import monotonic

from queenmq.model import PopKind

FULL_SCAN_SECONDS = 1.0  # how often a pop looks at all ready partitions, however old
FULL_SCAN_SECONDS_MAX = 30.0  # when that takes long, as over what an old snapshot keeps
FULL_SCAN_SHARE = 0.05  # of the time, at most, until then
KINDS_MAX = 10_000  # of which we remember where ready partitions begin


class ReadySince:
    """Where ready partitions of a kind begin."""

    __slots__ = ("looked_at", "pause", "since", "took")

    def __init__(self) -> None:
        self.since: datetime | None = None
        self.took = 0.0
        self.look()

    def look(self) -> None:
        """All of them are looked at now."""
        self.since = None
        self.looked_at = monotonic()
        self.pause = FULL_SCAN_SECONDS

    def looked(self, seconds: float) -> None:
        """How long that took; it counts when it took as long twice in a row, or a call that had to wait would."""
        last, self.took = self.took, seconds
        self.pause = min(max(FULL_SCAN_SECONDS, min(last, seconds) / FULL_SCAN_SHARE), FULL_SCAN_SECONDS_MAX)


class Ready:
    """Where ready partitions begin, for every kind of pop that was made."""

    def __init__(self) -> None:
        self._kinds: dict[PopKind, ReadySince] = {}

    def since(self, kind: PopKind) -> datetime | None:
        """Where a pop begins to look; from time to time, at the very beginning."""
        known = self._kinds.get(kind)
        if known is None:
            if len(self._kinds) >= KINDS_MAX:
                self._kinds.clear()
            self._kinds[kind] = ReadySince()
            return None
        if monotonic() - known.looked_at >= known.pause:
            known.look()
        return known.since

    def looked(self, kinds: Iterable[PopKind], seconds: float) -> None:
        """A call has looked at all ready partitions of those kinds of which it was not told where to begin."""
        for kind in kinds:
            known = self._kinds.get(kind)
            if known is not None and known.since is None:
                known.looked(seconds)

    def note(self, kind: PopKind, since: datetime | None) -> None:
        """A call has said where the next one may begin."""
        known = self._kinds.get(kind)
        if known is not None:
            known.since = since
