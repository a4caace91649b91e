"""Pictures for reports, as SVG that a page can hold."""

import io
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

SIZE_INCHES = (8.0, 3.2)
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "queen",
    "svg.fonttype": "none",
    "font.size": 9,
}  # the same data is the same picture


def over_time(series: Mapping[str, Sequence[tuple[float, float]]], unit: str) -> str:
    """Lines over time: by name, seconds since 1970 and values."""
    with mpl.rc_context(STYLE):
        figure, axes = _figure()
        for name, points in series.items():
            times: Any = [datetime.fromtimestamp(seconds, UTC) for seconds, _ in points]
            axes.plot(times, [value for _, value in points], label=name, marker=".", linewidth=1)
        axes.set_ylabel(unit)
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False)
        figure.autofmt_xdate()
        return _svg(figure)


def bars(labels: Sequence[str], series: Mapping[str, Sequence[float]], unit: str) -> str:
    """Bars side by side, a group of them for each label, the first on top."""
    with mpl.rc_context(STYLE):
        figure, axes = _figure(height=0.8 + 0.35 * max(2, len(labels)))
        thickness = 0.8 / max(1, len(series))
        for number, (name, values) in enumerate(series.items()):
            axes.barh([place + number * thickness for place in range(len(labels))], values, thickness, label=name)
        middle = 0.4 - thickness / 2
        axes.set_yticks([place + middle for place in range(len(labels))], labels)
        axes.invert_yaxis()
        axes.set_xlabel(unit)
        if len(series) > 1:
            axes.legend(frameon=False)
        return _svg(figure)


def _figure(height: float = SIZE_INCHES[1]) -> tuple[Figure, Any]:
    figure = Figure(figsize=(SIZE_INCHES[0], height), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _svg(figure: Figure) -> str:
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg", metadata={"Date": None})
    text = drawn.getvalue()
    return text[text.index("<svg") :]
