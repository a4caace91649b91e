"""The files of the dashboard, read once and kept in memory, plain and compressed.

The page itself may load scripts and styles from this server only. The import map is the one script inside the page,
and the policy names its hash. Every file has its hash as its ETag: a browser asks whether a file has changed and gets
304 without a body, so a new version of the server counts with the next load.
"""

import base64
import gzip
import hashlib
import re
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from queenmq.broker.http import Request, Response

STATIC = Path(__file__).with_name("static")
PAGE = "index.html"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
COMPRESSION = 9
POLICY = (
    "default-src 'none'; script-src 'self' '{hash}'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
COMMON = (
    ("cache-control", "no-cache"),
    ("vary", "accept-encoding"),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
)

_IMPORT_MAP = re.compile(rb'<script type="importmap">(.*?)</script>', re.DOTALL)
_NO_GZIP = re.compile(r"gzip\s*;\s*q=0(\.0*)?\s*(,|$)")


class Asset(Struct, frozen=True):
    """A file with the headers that it is sent with."""

    etag: str
    plain: Response
    compressed: Response
    unchanged: Response


@lru_cache(maxsize=1)
def assets() -> dict[str, Asset]:
    """All files by their path below `static/`."""
    paths = (path for path in STATIC.rglob("*") if path.suffix in TYPES)
    return {path.relative_to(STATIC).as_posix(): _asset(path) for path in paths}


def send(asset: Asset, request: Request) -> Response:
    """The file as this browser wants it; nothing but a status if the browser has it already."""
    known = request.headers.get(b"if-none-match", b"").decode("latin-1")
    if asset.etag in known.replace("W/", "").replace(" ", "").split(","):
        return asset.unchanged
    accepted = request.headers.get(b"accept-encoding", b"").decode("latin-1").lower()
    return asset.compressed if "gzip" in accepted and not _NO_GZIP.search(accepted) else asset.plain


def _asset(path: Path) -> Asset:
    content = path.read_bytes()
    etag = f'"{hashlib.sha256(content).hexdigest()[:24]}"'
    headers = (("etag", etag), *COMMON, *_policy(path, content))
    typed = (("content-type", TYPES[path.suffix]), *headers)
    return Asset(
        etag,
        Response(200, content, typed),
        Response(200, gzip.compress(content, COMPRESSION, mtime=0), (*typed, ("content-encoding", "gzip"))),
        Response(304, headers=headers),
    )


def _policy(path: Path, content: bytes) -> tuple[tuple[str, str], ...]:
    if path.name != PAGE:
        return ()
    import_map = _IMPORT_MAP.search(content)
    assert import_map is not None
    digest = base64.b64encode(hashlib.sha256(import_map[1]).digest()).decode()
    return (("content-security-policy", POLICY.format(hash=f"sha256-{digest}")),)
