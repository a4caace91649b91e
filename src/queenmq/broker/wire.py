"""Headers as they travel in requests and answers, and how long a list in a body is, before it is decoded."""

from functools import lru_cache
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, UnsetType

_STRINGS = {"additionalProperties": {"type": "string"}}
# What is wrong with given headers is told message by message; stored ones are left out of answers where there are none.
GivenHeaders = Annotated[Any, Meta(extra_json_schema={"type": ["object", "null"], **_STRINGS})]
StoredHeaders = Annotated[Raw, Meta(extra_json_schema={"type": "object", **_STRINGS})] | UnsetType


COUNTED_MAX = 20_000  # longest list whose length is checked before it is decoded

_TOO_LONG = "at most length"  # msgspec of such a list


def is_longer(body: bytes, name: str | None, most: int) -> bool:
    """Whether a list in a body has more than so many elements; `name`: its field, or None if it is the whole body.

    A body of 64 MB can have 30 million elements, which would take gigabytes when they are decoded. This reads no
    further than one element too many. What else is wrong with the body is found when it is decoded.
    """
    if most > COUNTED_MAX or body.count(b"{" if name else b",") < most:
        return False
    try:
        _counter(name, most).decode(body)
    except msgspec.ValidationError as error:
        return _TOO_LONG in str(error)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    return False


@lru_cache(maxsize=10)
def _counter(name: str | None, most: int) -> "msgspec.json.Decoder[Any]":
    fields = [(f"element_{number}", Raw, Raw()) for number in range(most)]
    listed = msgspec.defstruct("Listed", fields, array_like=True, forbid_unknown_fields=True)
    return msgspec.json.Decoder(listed if name is None else msgspec.defstruct("Body", [(name, listed)]))
