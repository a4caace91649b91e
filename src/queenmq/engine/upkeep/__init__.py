"""What has to be done now and then, by one process per database: services of one shape, run by a leader."""

from queenmq.engine.upkeep.leader import Leader
from queenmq.engine.upkeep.service import Service

__all__ = ["Leader", "Service"]
