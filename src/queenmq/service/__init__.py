"""One function for each call: it turns what is asked into calls of the engine, and answers what the call declares.

The server and the SDK's direct transport use the same functions. Push, pop, ack and what is told of a server's own
state are not here: these have codecs of their own on both ways.
"""

from queenmq.service import dead_letters, diagnosis, groups, messages, queues, system, traces
from queenmq.service.host import Host, Service, services

SERVICES = services(dead_letters, diagnosis, groups, messages, queues, system, traces)

__all__ = ["SERVICES", "Host", "Service"]
