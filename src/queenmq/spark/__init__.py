"""Queues in Spark: `format("queen")`, as tables and as streams, exactly once."""

from queenmq.spark.session import register, session
from queenmq.spark.source import QueenDataSource

__all__ = ["QueenDataSource", "register", "session"]
