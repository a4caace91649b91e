"""Payloads that some readers could not read are refused; `queen.check_payload` has the same limits in SQL.

Beyond these limits Python's int, pydantic, PostgreSQL's jsonb or Spark's parsers fail. Few payloads come near them, so
the checks begin with conditions that cost next to nothing and are false for most requests.
"""

import re
from collections.abc import Sequence

from msgspec import Raw

from queenmq.errors import InvalidPayload

DIGITS_MAX = 330  # in a row, in a number; every float has fewer, also when PostgreSQL writes it without an exponent
DEPTH_MAX = 200  # of arrays and objects in each other

_STEP = DIGITS_MAX // 2
_TWO_DIGITS = re.compile(rb"[0-9](?=[0-9])")
_SHORT = 8192  # bytes; brackets of a longer text are counted faster by numpy


def check_limits(array: bytes, payloads: Sequence[bytes | Raw], first: int = 0) -> None:
    """Refuse the first payload that is beyond a limit.

    `array` is the JSON array of the payloads, `first` is the place of the first one in the request.
    """
    longest = max(map(len, payloads), default=0)
    if longest > DIGITS_MAX and _may_have_long_number(array):
        from queenmq.model.json_shape import digits  # noqa: PLC0415 (it needs numpy; most programs do not get here)

        for place, payload in enumerate(payloads, first):
            if digits(bytes(payload)) > DIGITS_MAX:
                raise InvalidPayload(
                    f"the payload of message {place} has a number of more than {DIGITS_MAX} digits: send it as a string"
                )
    if longest > 2 * DEPTH_MAX and (len(array) > _SHORT or array.count(b"[") + array.count(b"{") > DEPTH_MAX):
        from queenmq.model.json_shape import depth, may_be_deep  # noqa: PLC0415 (the same)

        for place, payload in enumerate(payloads, first) if may_be_deep(array, longest, DEPTH_MAX) else ():
            if len(payload) > 2 * DEPTH_MAX and depth(bytes(payload)) > DEPTH_MAX:
                raise InvalidPayload(f"the payload of message {place} nests more than {DEPTH_MAX} arrays and objects")


def _may_have_long_number(text: bytes) -> bool:
    """Whether there are many digits in a row, in a number or in a string.

    A row that is too long covers at least two of the characters that are looked at, and all between them.
    """
    for found in _TWO_DIGITS.finditer(text[_STEP - 1 :: _STEP]):
        start = (found.start() + 1) * _STEP - 1
        if text[start : start + _STEP].isdigit():
            return True
    return False
