"""The way of a request: from a connection to its route, and back with the answer."""

import logging
from collections.abc import Sequence
from time import perf_counter

from queenmq.broker.app import ROUTES
from queenmq.broker.auth import configured_authenticator
from queenmq.broker.broker import Broker
from queenmq.broker.browsers import Guard
from queenmq.broker.dashboard.routes import routes as dashboard_routes
from queenmq.broker.http import Request, Response, failure
from queenmq.broker.logs import Journal
from queenmq.broker.routing import Route, Router
from queenmq.errors import QueenError

log = logging.getLogger(__name__)


class Application:
    """Takes a request from a connection, finds its route, answers."""

    def __init__(self, broker: Broker, routes: Sequence[Route] = ROUTES) -> None:
        self.broker = broker
        self.router = Router((*routes, *dashboard_routes()))
        self._authenticator = configured_authenticator(broker.settings)
        self._guard = Guard(broker.settings)
        self._journal = Journal(broker.settings)

    async def respond(self, request: Request) -> Response:
        """Answer one request."""
        metrics = self.broker.metrics
        metrics.in_flight += 1
        try:
            route, answered = await self._respond(request)
            response = self._guard.mark(request, answered)
        finally:
            metrics.in_flight -= 1
        seconds = perf_counter() - request.started
        metrics.answered(route, response.status, seconds)
        self._journal.note(request, response, seconds)
        return response

    async def _respond(self, request: Request) -> tuple[Route | None, Response]:
        """The answer, and the route if there is one for the address."""
        route = None
        try:
            if request.method == "OPTIONS" and (permission := self._guard.preflight(request)) is not None:
                return None, permission
            route = self.router.find(request)
            self._guard.admit(request, route)
            if self._authenticator is not None and route.role is not None:
                await self._authenticator.admit(request, route.role)
            request.check_size()
            return route, await route.handler(self.broker, request)
        except QueenError as error:
            return route, failure(error)
        except Exception:
            log.exception("a request failed in an unforeseen way", extra={"path": request.path})
            return route, failure(QueenError("something went wrong in the server"))
