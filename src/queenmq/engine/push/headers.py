"""Headers: a small object of strings that travels beside a payload, for programs that pass messages on.

They are checked and encoded as JSON once, when they are pushed. After that, nothing looks inside until a consumer
asks for them. A message without headers has not even an empty object.
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, Raw

from queenmq.errors import InvalidHeaders
from queenmq.model import Headers

HEADERS_MAX = 32
NAME_CHARACTERS_MAX = 128
HEADERS_BYTES_MAX = 4_096  # of JSON

_Name = Annotated[str, Meta(min_length=1, max_length=NAME_CHARACTERS_MAX)]
_Checked = Annotated[dict[_Name, str], Meta(max_length=HEADERS_MAX)]


def encoded(given: Sequence[Headers | None]) -> Sequence[Raw | None] | None:
    """The headers of messages as JSON, or None for a message without. Refuses the first bad ones."""
    if given.count(None) == len(given):
        return None
    found = [None if headers is None else _encoded(headers, index) for index, headers in enumerate(given)]
    return found if any(found) else None


def _encoded(headers: Headers, index: int) -> Raw | None:
    try:
        checked: Headers = msgspec.convert(headers, _Checked)
        text = msgspec.json.encode(checked)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise InvalidHeaders(f"the headers of message {index} are not acceptable: {error}") from None
    if len(text) > HEADERS_BYTES_MAX:
        raise InvalidHeaders(f"the headers of message {index} have {len(text)} bytes; {HEADERS_BYTES_MAX} is the most")
    if any("\x00" in name or "\x00" in value for name, value in checked.items()):
        raise InvalidHeaders(f"the headers of message {index} contain the character U+0000")
    return Raw(text) if checked else None
