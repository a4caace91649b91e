"""GET /, the dashboard, and what only its pages ask for. All other numbers on them come from the public API."""

from collections.abc import Sequence

from msgspec import Struct

from queenmq import __version__
from queenmq.api.call import Role
from queenmq.broker.broker import Broker
from queenmq.broker.dashboard.files import PAGE, assets, send
from queenmq.broker.dashboard.now import ADMIN_PARTS, PARTS, Now
from queenmq.broker.http import Request, Response, answer
from queenmq.broker.routing import Route
from queenmq.engine.statistics import QueueRates
from queenmq.errors import NoSuchRoute


class Session(Struct):
    """Who uses the dashboard and what they may do; both are null if the server asks nobody for a token."""

    version: str
    subject: str | None
    roles: Sequence[Role] | None


async def page(_broker: Broker, request: Request) -> Response:
    """The dashboard."""
    return send(assets()[PAGE], request)


async def file(_broker: Broker, request: Request) -> Response:
    """A script, a style or a picture of the dashboard."""
    name = request.path_parameters["file"]
    asset = assets().get(name)
    if asset is None or name == PAGE:
        raise NoSuchRoute(f"the dashboard has no file {name[:200]}")
    return send(asset, request)


async def session(_broker: Broker, request: Request) -> Response:
    """Whether the token is good, and which buttons its roles allow."""
    roles = None if request.roles is None else sorted(request.roles)
    return answer(Session(__version__, request.producer, roles))


async def rates(broker: Broker, _request: Request) -> Response:
    """How fast each queue is written and finished, from the counts of the last minutes."""
    return answer(await broker.engine.statistics.rates())


def routes() -> Sequence[Route]:
    """The addresses of the dashboard. What its pages share is made anew with each call."""
    return (
        Route("GET", "/", page, None),
        Route("GET", "/dashboard/session", session, "read-only", gives=Session),
        Route("GET", "/dashboard/rates", rates, "read-only", gives=list[QueueRates]),
        Route("GET", "/dashboard/now", Now(PARTS).answer, "read-only"),
        Route("GET", "/dashboard/checks", Now(ADMIN_PARTS).answer, "admin"),
        Route("GET", "/dashboard/{file}", file, None),
    )
