"""What it takes to declare a call.

    class ClearQueue(Call[QueueCleared], frozen=True):
        '''Delete all stored messages of a queue; its partitions and groups stay.'''

        endpoints = (Endpoint("DELETE", "/api/v1/queues/{queue}/clear", "admin"),)
        queue: str

The struct's fields are what the call takes, `Call[…]` names its answer, and the docstring is its documentation. A
field that an address names travels there. Other fields travel in the query of a GET or a DELETE, and in the JSON body
of a POST, unless the endpoint says otherwise. `rename` says what a field is called over HTTP.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar, get_args

import msgspec
from msgspec import Meta, Struct
from msgspec.inspect import IntType, Metadata, NoneType, Type, UnionType, type_info
from msgspec.structs import FieldInfo, fields

from queenmq.errors import InvalidArgument, QueenError

A = TypeVar("A")

Role = Literal["read-only", "producer", "consumer", "read-write", "admin"]
Need = Role | Literal["producer or consumer"]  # of a call; the server's `auth` has which roles are enough for it

Limit = Annotated[int, Meta(ge=1, le=1_000, description="how many to list at most")]
LongLimit = Annotated[int, Meta(ge=1, le=10_000, description="how many to list at most")]
Skip = Annotated[int, Meta(ge=0, le=1_000_000, description="how many to leave out first")]
Cursor = Annotated[str | None, Meta(description="nextCursor of the page before")]


class Endpoint(Struct, frozen=True):
    """An address of a call.

    `role`: what the caller's token must allow; None if no token is needed. `query`: fields that travel there although
    the method has a body. `defaults`: values of fields that are left out, if they differ from the struct's. `status`:
    that of an answer. `refusals`: the error for a field of the body that is not acceptable, if it has its own.
    """

    method: Literal["GET", "POST", "DELETE"]
    path: str
    role: Need | None
    query: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = {}
    status: int = 200
    refusals: Mapping[str, type[QueenError]] = {}


class Call(Struct, Generic[A], frozen=True):
    """Something to ask of Queen, and what is answered.

    `endpoints`: the SDK uses the first one whose address it can fill. `repeatable`: sending it twice does no harm.
    `large`: an answer may have megabytes, so a server makes few of them at a time.
    """

    endpoints: ClassVar[tuple[Endpoint, ...]] = ()
    repeatable: ClassVar[bool] = True
    large: ClassVar[bool] = False


class Shape(Struct, frozen=True):
    """A call at one of its addresses: which fields travel where."""

    call: type[Call[Any]]
    endpoint: Endpoint
    path: tuple[FieldInfo, ...]
    query: tuple[FieldInfo, ...]
    body: tuple[FieldInfo, ...]
    body_type: type[Struct] | None


@cache
def answer_type(call: type[Call[Any]]) -> Any:
    """What `Call[…]` names."""
    [kind] = get_args(call.__orig_bases__[0])  # type: ignore[attr-defined]
    return kind


@cache
def shapes(call: type[Call[Any]]) -> tuple[Shape, ...]:
    """The shapes of a call, one for each of its addresses."""
    return tuple(_shape(call, endpoint) for endpoint in call.endpoints)


def _shape(call: type[Call[Any]], endpoint: Endpoint) -> Shape:
    in_path = [field for field in fields(call) if f"{{{field.name}}}" in endpoint.path]
    rest = [field for field in fields(call) if field not in in_path]
    in_query = [field for field in rest if endpoint.method != "POST" or field.name in endpoint.query]
    in_body = [field for field in rest if field not in in_query]
    return Shape(call, endpoint, tuple(in_path), tuple(in_query), tuple(in_body), _body_type(call, in_body))


def _body_type(call: type[Call[Any]], parts: Iterable[FieldInfo]) -> type[Struct] | None:
    declared = [_declared(field) for field in parts]
    if not declared:
        return None
    return msgspec.defstruct(
        f"{call.__name__}Body",
        declared,
        rename={field.name: field.encode_name for field in parts},
        forbid_unknown_fields=call.__struct_config__.forbid_unknown_fields,
        kw_only=True,
        module=call.__module__,
        namespace={"__doc__": call.__doc__},
    )


def _declared(field: FieldInfo) -> tuple[str, Any] | tuple[str, Any, Any]:
    if field.default is not msgspec.NODEFAULT:
        return (field.name, field.type, field.default)
    if field.default_factory is not msgspec.NODEFAULT:
        return (field.name, field.type, msgspec.field(default_factory=field.default_factory))
    return (field.name, field.type)


def kind_of(field: FieldInfo) -> tuple[Type, str]:
    """The type of a field's values, None left out, and its description."""
    found, description = type_info(field.type), ""
    if isinstance(found, Metadata):
        description = (found.extra_json_schema or {}).get("description", "")
        found = found.type
    if isinstance(found, UnionType):
        kinds = [each for each in found.types if not isinstance(each, NoneType)]
        found = kinds[0] if len(kinds) == 1 else found
    return found, description


def check(call: Call[Any]) -> None:
    """Refuse numbers that are out of their range. The server does the same when it reads a request."""
    for field, kind in _numbers(type(call)):
        check_number(field.name, getattr(call, field.name), kind)


def check_number(name: str, value: int, kind: IntType) -> None:
    """Refuse a whole number that is out of its range."""
    if not (kind.ge is None or kind.ge <= value) or not (kind.le is None or value <= kind.le):
        raise InvalidArgument(f"{name} is a whole number {_range(kind)}, not {value}")


def _range(kind: IntType) -> str:
    return f"from {kind.ge} on" if kind.le is None else f"from {kind.ge} to {kind.le}"


@cache
def _numbers(call: type[Call[Any]]) -> list[tuple[FieldInfo, IntType]]:
    found = [(field, kind_of(field)[0]) for field in fields(call)]
    return [(field, kind) for field, kind in found if isinstance(kind, IntType)]
