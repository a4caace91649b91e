"""The headers that say whom a request is for and where its body ends (RFC 9112, sections 3 and 6)."""

import re
from functools import lru_cache

from queenmq.broker.refusals import InvalidHttp, UnsupportedTransferEncoding

# RFC 3986: an IP address in brackets, or a name; then perhaps a port.
_AUTHORITY = re.compile(rb"(\[[0-9a-f:.%\w~-]+\]|[\w.~!$&'()*+,;=%-]*)(:[0-9]*)?", re.IGNORECASE)
_ABSOLUTE = re.compile(rb"[a-z][a-z0-9+.-]*://(?P<authority>[^/?#]*)(?P<rest>.*)", re.IGNORECASE | re.DOTALL)
_TOKEN = re.compile(rb"[\w!#$%&'*+.^`|~-]+")


def addressee(target: bytes, host: bytes, hosts: int, version: str) -> tuple[bytes, str]:
    """The target without a server's name, and the server's name and port in small letters.

    `host` is the value of the Host header, `hosts` how many there are: there must be one, whatever the version.
    A target may name the server, as if it were sent to a proxy; then this name counts, not the one in the header.
    """
    if version not in ("1.0", "1.1"):
        raise InvalidHttp(f"this server speaks HTTP/1.1, not HTTP/{version}")
    if hosts != 1:
        raise InvalidHttp(f"the request has {hosts or 'no'} Host headers, and must have one")
    named = authority(host)
    found = None if target.startswith(b"/") else _ABSOLUTE.fullmatch(target)
    if found is None:
        return target, named
    rest: bytes = found["rest"]
    return rest if rest.startswith(b"/") else b"/" + rest, authority(found["authority"])


@lru_cache(maxsize=1_000)
def authority(text: bytes) -> str:
    """A server's name and port; refuses what cannot be one."""
    if _AUTHORITY.fullmatch(text.rstrip()) is None:
        raise InvalidHttp(f"a request names one host and perhaps a port, not {text[:200].decode('latin-1')!r}")
    return text.rstrip().decode("ascii").lower()


def check_transfer_encoding(value: bytes, version: str) -> None:
    """Refuse every way to transfer a body except in chunks."""
    codings = [coding.strip().lower() for coding in value.split(b",")]
    if codings == [b"chunked"] and version != "1.0":
        return
    shown = value[:100].decode("latin-1")
    if version == "1.0" or codings[-1] != b"chunked" or codings.count(b"chunked") > 1:
        raise InvalidHttp(f"HTTP/{version} with Transfer-Encoding {shown!r} does not say where the body ends")
    if not all(_TOKEN.fullmatch(coding) for coding in codings):
        raise InvalidHttp(f"Transfer-Encoding {shown!r} is not a list of encodings")
    raise UnsupportedTransferEncoding(f"the body is transferred as {shown!r}, and this server knows only chunked")
