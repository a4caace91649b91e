"""The queue as a library on PostgreSQL: batching, waiting, upkeep."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from queenmq.engine.engine import Engine
    from queenmq.engine.pop.popper import Popped

__all__ = ["Engine", "Popped"]


def __getattr__(name: str) -> object:
    """Import the engine when it is asked for: Spark's processes do without, and use some of its modules."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from queenmq.engine import engine  # noqa: PLC0415

    return getattr(engine, name)
