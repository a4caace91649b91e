"""Counts by size: how many of something there were, how large they were together, and how many were how large."""

from bisect import bisect_left

from msgspec import Struct

# Upper ends in seconds; parked polls take longer than the rest, and as long as their clients like.
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Histogram(Struct):
    """Values by bucket. `ends` are the upper ends of all buckets but the last, which has no end."""

    ends: tuple[float, ...]
    count: int = 0
    total: float = 0.0
    buckets: list[int] = []

    def __post_init__(self) -> None:
        if not self.buckets:
            self.buckets = [0] * (len(self.ends) + 1)

    def note(self, value: float) -> None:
        """Count one value."""
        self.count += 1
        self.total += value
        self.buckets[bisect_left(self.ends, value)] += 1

    def add(self, other: "Histogram") -> None:
        """Add what another has counted."""
        self.count += other.count
        self.total += other.total
        self.buckets = [a + b for a, b in zip(self.buckets, other.buckets, strict=True)]

    def cumulative(self) -> list[tuple[str, float]]:
        """Each bucket with all below it, as Prometheus counts."""
        total = 0
        found = []
        for end, count in zip((*map(str, self.ends), "+Inf"), self.buckets, strict=True):
            total += count
            found.append((end, float(total)))
        return found
