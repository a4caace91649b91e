"""Queen: a partitioned message queue on PostgreSQL."""

__version__ = "0.1.0"
