"""Reports as one HTML page that needs nothing else: no script, no style sheet, no server."""

from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path
from typing import Any

from queenmq.spark.pipelines.report import Report, Table

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; margin: .5rem 0 1.5rem; }
td, th { padding: .2rem 1rem .2rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid #ddd; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
svg { max-width: 100%; height: auto; }
@media (prefers-color-scheme: dark) { body { background: #fff; } }
"""


def write_page(path: str, title: str, reports: Iterable[Report]) -> None:
    """Write the page."""
    body = "\n".join(line for report in reports for line in _section(report))
    Path(path).write_text(
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style></head>\n<body><h1>{escape(title)}</h1>\n{body}\n</body></html>\n",
        encoding="utf-8",
    )


def _section(report: Report) -> Iterator[str]:
    yield f"<h2>{escape(report.title)}</h2>"
    if report.facts:
        yield from _table(Table.of(("", ""), report.facts.items()))
    for name, picture in report.pictures.items():
        yield f"<h3>{escape(name)}</h3>{picture}"
    for name, table in report.tables.items():
        yield f"<h3>{escape(name)}</h3>"
        yield from _table(table)


def _table(table: Table) -> Iterator[str]:
    yield f"<table><tr>{''.join(f'<th>{escape(column)}</th>' for column in table.columns)}</tr>"
    for row in table.rows:
        yield f"<tr>{''.join(_cell(value) for value in row)}</tr>"
    yield "</table>"


def _cell(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"<td>{escape('' if value is None else str(value))}</td>"
    return f'<td class="number">{f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"}</td>'
