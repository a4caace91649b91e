"""The queue as a library on PostgreSQL: batching, waiting, upkeep."""

from queenmq.engine.engine import Engine
from queenmq.engine.pop import Popped

__all__ = ["Engine", "Popped"]
