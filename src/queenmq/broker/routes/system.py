"""GET and POST /system/maintenance and /system/maintenance/pop."""

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from queenmq.broker.http import Request, Response, answer

if TYPE_CHECKING:
    from queenmq.broker.app import Broker


class Switch(Struct):
    """Maintenance on or off."""

    enabled: bool


class PushMaintenance(Struct, rename="camel"):
    """Whether pushes are kept back in all servers, and what waits in the spool of this one."""

    enabled: bool
    database_available: bool
    buffered_messages: int
    buffered_bytes: int
    refused_messages: int


class PopMaintenance(Struct):
    """Whether deliveries are paused in all servers."""

    enabled: bool


_switch = msgspec.json.Decoder(Switch)


async def maintenance(broker: "Broker", _request: Request) -> Response:
    """Whether pushes are kept in the spool on purpose, and how much is in it."""
    messages, size, refused = await broker.spool.buffered() if broker.spool is not None else (0, 0, 0)
    available = not broker.engine.database.away
    return answer(PushMaintenance(broker.presence.push_paused, available, messages, size, refused))


async def set_maintenance(broker: "Broker", request: Request) -> Response:
    """Keep pushes in the spools of all servers of this database, or store them again."""
    await broker.presence.set_push_paused(paused=(await request.json(_switch)).enabled)
    return await maintenance(broker, request)


async def pop_maintenance(broker: "Broker", _request: Request) -> Response:
    """Whether deliveries are paused."""
    return answer(PopMaintenance(broker.presence.pop_paused))


async def set_pop_maintenance(broker: "Broker", request: Request) -> Response:
    """Pause deliveries in all servers of this database, or go on."""
    await broker.presence.set_pop_paused(paused=(await request.json(_switch)).enabled)
    return await pop_maintenance(broker, request)
