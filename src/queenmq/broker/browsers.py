"""Which requests of browsers this server answers.

Any web page can make its reader's browser send requests to any address that the browser can reach, also to a server on
loopback. The browser marks such requests with `Sec-Fetch-Site` and `Origin`, and the page cannot change these headers.
A request that comes from another origin is refused, unless that origin is in QUEEN_CORS_ORIGINS.

A page can also have its own host name resolve to the address of this server (DNS rebinding). Then the browser sees one
origin and marks nothing, but `Host` still has the name. A server that asks for tokens is safe from that, because the
page has none. A server without tokens accepts only `Host` values that an attacker cannot have: IP addresses,
`localhost`, the name it listens on and the names in QUEEN_HOSTS.

Programs that are not browsers send none of these headers and an ordinary `Host`.
"""

from functools import lru_cache
from ipaddress import ip_address
from typing import TYPE_CHECKING

from msgspec.structs import replace

from queenmq.broker.http import Response
from queenmq.broker.refusals import CrossSite, UnknownHost

if TYPE_CHECKING:
    from queenmq.broker.http import Request
    from queenmq.broker.routing import Route
    from queenmq.config import Settings

PREFLIGHT_SECONDS = "7200"  # for which a browser may remember the answer to a preflight
VARY = ("vary", "origin")
ALLOWED = (
    ("access-control-allow-methods", "GET, HEAD, POST, DELETE"),
    ("access-control-allow-headers", "authorization, content-type"),
    ("access-control-max-age", PREFLIGHT_SECONDS),
)
EXPOSED = ("access-control-expose-headers", "allow, retry-after, www-authenticate")


class Guard:
    """Refuses requests of pages that are not this server's own."""

    def __init__(self, settings: "Settings") -> None:
        self._origins = settings.allowed_origins()
        self._names = frozenset({"localhost", settings.host.lower()}) | settings.known_hosts()
        self._asks_for_tokens = settings.asks_for_tokens

    def admit(self, request: "Request", route: "Route") -> None:
        """Let a request pass, or say why not."""
        self._check_host(request)
        headers = request.headers
        if b"sec-fetch-site" in headers or b"origin" in headers:
            self._check_origin(request, route)

    def preflight(self, request: "Request") -> Response | None:
        """The answer to a browser that asks whether a page may send a request; None if it asks something else."""
        if b"access-control-request-method" not in request.headers or b"origin" not in request.headers:
            return None
        self._check_host(request)
        if _origin(request) not in self._origins:
            raise _cross_site(request)
        return Response(204, headers=ALLOWED)

    def mark(self, request: "Request", response: Response) -> Response:
        """Let a page of an allowed origin read the response."""
        if not self._origins:
            return response
        origin = _origin(request)
        if origin not in self._origins:
            return replace(response, headers=(*response.headers, VARY))
        granted = (
            ("access-control-allow-origin", origin),
            ("access-control-allow-credentials", "true"),
            EXPOSED,
            VARY,
        )
        return replace(response, headers=(*response.headers, *granted))

    def _check_host(self, request: "Request") -> None:
        if self._asks_for_tokens or is_known(request.host, self._names):
            return
        raise UnknownHost(
            f"this server has no host name {request.host[:200]!r}: use its IP address, or set QUEEN_HOSTS where it runs"
        )

    def _check_origin(self, request: "Request", route: "Route") -> None:
        site, origin = _header(request, b"sec-fetch-site"), _origin(request)
        if site == "same-origin" or origin in self._origins:
            return
        if site in ("", "none") and (not origin or is_own(origin, request.host)):
            return  # from a page of this server, or typed by a person
        if route.role is None and _is_navigation(request):
            return  # a link to a page that anybody may read
        raise _cross_site(request)


@lru_cache(maxsize=1_000)
def is_known(authority: str, names: frozenset[str]) -> bool:
    """Whether a `Host` is an IP address or one of these names, with any port."""
    literal, bracket, _ = authority.removeprefix("[").partition("]")
    name = literal if bracket else authority.partition(":")[0].removesuffix(".")
    if name in names:
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=1_000)
def is_own(origin: str, authority: str) -> bool:
    """Whether an origin is the one that a request is addressed to.

    The scheme is not compared: something in front of the server may have received the request with TLS.
    """
    scheme, _, place = origin.partition("://")
    port = {"http": ":80", "https": ":443"}.get(scheme)
    if port is None or not authority:
        return False
    return place.removesuffix(port) == authority.removesuffix(port)


def _is_navigation(request: "Request") -> bool:
    """Whether a person follows a link in a tab of the browser."""
    return (
        request.method in ("GET", "HEAD")
        and _header(request, b"sec-fetch-mode") == "navigate"
        and _header(request, b"sec-fetch-dest") == "document"
    )


def _origin(request: "Request") -> str:
    return _header(request, b"origin")


def _header(request: "Request", name: bytes) -> str:
    """A header in small letters; empty if there is none."""
    return request.headers.get(name, b"").decode("latin-1").strip().lower()


def _cross_site(request: "Request") -> CrossSite:
    page = f"a page of {_origin(request)[:200]}" if _origin(request) else "a page of another origin"
    return CrossSite(f"{page} made a browser send this request, which QUEEN_CORS_ORIGINS does not allow")
