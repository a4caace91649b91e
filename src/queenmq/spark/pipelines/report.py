"""What a pipeline found: facts, tables and pictures; the terminal, JSON and the HTML page show the same."""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct, field


class Table(Struct, frozen=True):
    """Some rows under names."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]

    @classmethod
    def of(cls, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> "Table":
        """A table of anything that has rows."""
        return cls(tuple(columns), [tuple(row) for row in rows])

    def records(self) -> list[dict[str, Any]]:
        """The rows as objects, for programs."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


class Report(Struct, frozen=True):
    """The outcome of one run."""

    title: str
    rows: int  # messages read, or written where the pipeline writes
    facts: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)
    pictures: dict[str, str] = field(default_factory=dict)  # title -> SVG

    def plain(self) -> dict[str, Any]:
        """All but the pictures, as JSON has it."""
        return {
            "title": self.title,
            "rows": self.rows,
            **self.facts,
            "tables": {name: table.records() for name, table in self.tables.items()},
        }
