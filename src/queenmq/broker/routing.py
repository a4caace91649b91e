"""Which function answers which address.

Names in addresses may hold anything, `/` too, sent as %2F: an address is taken apart as it was sent, and its parts are
decoded. One that fits nowhere this way is decoded first, for clients that send a `/` as it is: then a parameter matches
as much as it can, and what is spelled out decides. Only a partition's id is ours, and ends at the next `/`.
"""

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Any
from urllib.parse import unquote

from msgspec import Struct

from queenmq.api.call import Need
from queenmq.broker.http import Request, Response
from queenmq.errors import InvalidArgument, MethodNotAllowed, NoSuchRoute

Handler = Callable[[Any, Request], Awaitable[Response]]  # the first is the Broker, which has no need to know routes

KNOWN_MAX = 10_000  # addresses that are remembered with what they mean,
KNOWN_CHARACTERS_MAX = 300  # unless they are longer

_PARAMETER = re.compile(r"\{(\w+)\}")


class Route(Struct, frozen=True):
    """One line of the table in `app`.

    `role`: who may call it, None for everybody. `declared`: what its documentation is taken from, a call or a function.
    `takes` and `gives`: the structs of the body and of the answer, for /openapi.json. `query`: the query's parameters
    with what they mean.
    """

    method: str
    pattern: str
    handler: Handler
    role: Need | None
    declared: Any = None
    takes: Any = None
    gives: Any = None
    query: dict[str, str] = {}

    @property
    def summary(self) -> str:
        """The first line of the docstring."""
        return ((self.declared or self.handler).__doc__ or "").strip().split("\n")[0]

    @property
    def tag(self) -> str:
        """The noun that the route is about: the name of the file that declares it."""
        return str((self.declared or self.handler).__module__).rpartition(".")[2]


Methods = dict[str, Route]
Found = tuple[Methods, dict[str, str]]  # the routes of an address by method, and the parameters in it


class Pattern(Struct, frozen=True):
    """An address with parameters: as it is sent, and decoded."""

    start: str
    encoded: re.Pattern[str]
    decoded: re.Pattern[str]
    methods: Methods


class Router:
    """Finds routes: those without parameters by their address, the others one after the other."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = list(routes)
        self._fixed: dict[str, Found] = {}
        self._known: dict[str, Found] = {}  # addresses that were asked for
        patterns: dict[str, Pattern] = {}
        for route in self.routes:
            if "{" not in route.pattern:
                self._fixed.setdefault(route.pattern, ({}, {}))[0][route.method] = route
            else:
                patterns.setdefault(route.pattern, _pattern(route.pattern)).methods[route.method] = route
        # What spells out more comes first.
        spelled_out = sorted(patterns, key=lambda pattern: -len(_PARAMETER.sub("", pattern)))
        self._patterns = [patterns[pattern] for pattern in spelled_out]

    def find(self, request: Request) -> Route:
        """The route of a request; its path parameters are put into the request."""
        path = request.path
        found = self._fixed.get(path) or self._known.get(path) or self._look_up(path)
        methods, request.path_parameters = found
        route = methods.get("GET" if request.method == "HEAD" else request.method)
        if route is None:
            allowed = ", ".join(sorted(methods.keys() | ({"HEAD"} if "GET" in methods else set())))
            raise MethodNotAllowed(f"{path[:200]} takes {allowed}, not {request.method}", detail=allowed)
        return route

    def _look_up(self, path: str) -> Found:
        found = self._as_sent(path) or self._decoded(_decoded(path))
        if found is None:
            raise NoSuchRoute(f"there is nothing at {path[:200]}")
        if len(path) <= KNOWN_CHARACTERS_MAX:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[path] = found
        return found

    def _as_sent(self, path: str) -> Found | None:
        for pattern in self._patterns:
            if path.startswith(pattern.start) and (match := pattern.encoded.fullmatch(path)) is not None:
                return pattern.methods, {name: _decoded(part) for name, part in match.groupdict().items()}
        return None

    def _decoded(self, path: str) -> Found | None:
        if path in self._fixed:
            return self._fixed[path]
        for pattern in self._patterns:
            if path.startswith(pattern.start) and (match := pattern.decoded.fullmatch(path)) is not None:
                return pattern.methods, match.groupdict()
        return None


def _pattern(pattern: str) -> Pattern:
    parts = _PARAMETER.split(pattern)

    def expression(anything: str) -> re.Pattern[str]:
        return re.compile(
            "".join(
                re.escape(part) if n % 2 == 0 else f"(?P<{part}>{'[^/]+' if part == 'partition_id' else anything})"
                for n, part in enumerate(parts)
            ),
            re.DOTALL,
        )

    return Pattern(parts[0], expression("[^/]+"), expression("[^/].*"), {})  # an empty name is none


def _decoded(path: str) -> str:
    try:
        text = unquote(path, errors="strict")
    except UnicodeDecodeError:
        raise InvalidArgument("the address is not UTF-8") from None
    if "\ufffd" in path:  # what stands for bytes that are no text
        raise InvalidArgument("the address is not UTF-8")
    return text
