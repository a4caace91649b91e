"""Which function answers which address.

Names in addresses may hold anything, `/` too (sent as %2F, and decoded before we see it), so a parameter matches
as much as it can, and what is spelled out decides. Only a partition's id is ours, and ends at the next `/`.
"""

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from queenmq.broker.http import Request, Response
from queenmq.errors import InvalidArgument, MethodNotAllowed, NoSuchRoute

if TYPE_CHECKING:
    from queenmq.broker.app import Broker

Handler = Callable[["Broker", Request], Awaitable[Response]]
Role = Literal["read-only", "producer", "consumer", "admin"]
Need = Role | Literal["producer or consumer"]  # of a route; `auth` has which roles are enough for it

_PARAMETER = re.compile(r"\{(\w+)\}")


class Route(Struct, frozen=True):
    """One line of the table in `app`.

    `role`: who may call it, None for everybody. `takes` and `gives`: the structs of the body and of the answer, for
    /openapi.json. `query`: the query's parameters with what they mean.
    """

    method: str
    pattern: str
    handler: Handler
    role: Need | None
    takes: Any = None
    gives: Any = None
    query: dict[str, str] = {}

    @property
    def summary(self) -> str:
        """The first line of the handler's docstring."""
        return (self.handler.__doc__ or "").strip().split("\n")[0]


class Router:
    """Finds routes: those without parameters by their address, the others one after the other."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = list(routes)
        self._fixed: dict[str, dict[str, Route]] = {}
        self._patterns: dict[str, tuple[str, re.Pattern[str], dict[str, Route]]] = {}
        for route in self.routes:
            if "{" not in route.pattern:
                self._fixed.setdefault(route.pattern, {})[route.method] = route
                continue
            parts = _PARAMETER.split(route.pattern)
            expression = "".join(_expression(part) if n % 2 else re.escape(part) for n, part in enumerate(parts))
            compiled = re.compile(expression, re.DOTALL)
            self._patterns.setdefault(route.pattern, (parts[0], compiled, {}))[2][route.method] = route
        # What spells out more comes first.
        spelled_out = sorted(self._patterns, key=lambda pattern: -len(_PARAMETER.sub("", pattern)))
        self._ordered = [self._patterns[pattern] for pattern in spelled_out]

    def find(self, request: Request) -> Route:
        """The route of a request; its path parameters are put into the request."""
        methods = self._fixed.get(request.path)
        if methods is None:
            if "\ufffd" in request.path:  # what granian puts in the place of bytes that are no text
                raise InvalidArgument("the address is not UTF-8")
            for start, expression, candidates in self._ordered:
                if request.path.startswith(start) and (match := expression.fullmatch(request.path)) is not None:
                    request.path_parameters = match.groupdict()
                    methods = candidates
                    break
            else:
                raise NoSuchRoute(f"there is nothing at {request.path[:200]}")
        route = methods.get("GET" if request.method == "HEAD" else request.method)
        if route is None:
            allowed = ", ".join(sorted(methods.keys() | ({"HEAD"} if "GET" in methods else set())))
            raise MethodNotAllowed(f"{request.path[:200]} takes {allowed}, not {request.method}", detail=allowed)
        return route


def _expression(parameter: str) -> str:
    return f"(?P<{parameter}>{'[^/]+' if parameter == 'partition_id' else '.+'})"
