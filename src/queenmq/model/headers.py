"""Headers: what travels beside a payload, such as trace context or a content type."""

import msgspec
from msgspec import Raw

Headers = dict[str, str]

_headers = msgspec.json.Decoder(Headers)


def read_headers(text: bytes | str | Raw | None) -> Headers:
    """Headers as they are stored; none is an empty object. A new one each time, to do with as one likes."""
    return _headers.decode(text) if text is not None else {}
