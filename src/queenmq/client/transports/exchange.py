"""A call as HTTP."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct
from msgspec.structs import FieldInfo

from queenmq.api.call import Call, answer_type, shapes

encode = msgspec.json.Encoder().encode

A = TypeVar("A")

API = "/api/v1"


class Exchange(Struct, Generic[A], frozen=True, kw_only=True):
    """What is sent, and how the answer is read; a `repeatable` one may be sent twice.

    `unclaimed` says what is to be sent when the caller has gone and this is the answer.
    """

    path: str
    read: Callable[[bytes], A]
    method: str = "GET"
    query: str = ""
    body: bytes | None = None
    repeatable: bool = False
    wait_seconds: float = 0.0  # for which an answer may be held back because the call asks for it
    unclaimed: "Callable[[A], Sequence[Exchange[Any]]] | None" = None


ExchangeTable = Mapping[type[Call[Any]], Callable[[Any], Exchange[Any]]]


def declared(call: Call[A]) -> Exchange[A]:
    """A call as its declaration says. Fields that have their default values are not sent."""
    shape = next(
        each for each in shapes(type(call)) if all(getattr(call, field.name) is not None for field in each.path)
    )
    path = shape.endpoint.path
    for field in shape.path:
        path = path.replace(f"{{{field.name}}}", quote(getattr(call, field.name), safe=""))
    asked = {field.encode_name: getattr(call, field.name) for field in shape.query if _differs(call, field)}
    body = {field.encode_name: getattr(call, field.name) for field in shape.body if _differs(call, field)}
    return Exchange(
        path=path,
        read=_decoder(type(call)),
        method=shape.endpoint.method,
        query=query(**asked),
        body=encode(body) if shape.body else None,
        repeatable=call.repeatable,
    )


def _differs(call: Call[Any], field: FieldInfo) -> bool:
    return bool(field.required) or getattr(call, field.name) != field.default


@cache
def _decoder(call: type[Call[Any]]) -> Callable[[bytes], Any]:
    return msgspec.json.Decoder(answer_type(call)).decode


def path(*parts: str) -> str:
    """The address of a resource; names may contain anything."""
    return "/".join([API, *(quote(part, safe="") for part in parts)])


def query(**values: object) -> str:
    """Parameters as they travel; None is not sent."""
    return urlencode({name: _text(value) for name, value in values.items() if value is not None})


def _text(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
