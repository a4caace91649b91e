"""Routes made of declared calls: read a request into a call's struct, have it served, encode the answer."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.inspect import BoolType, DateTimeType, IntType, ListType, LiteralType
from msgspec.structs import FieldInfo

from queenmq.api.call import Call, Shape, answer_type, check_number, kind_of, shapes
from queenmq.broker.broker import Broker
from queenmq.broker.http import Request, Response, answer, whole_number
from queenmq.broker.refusals import UnexpectedBody
from queenmq.broker.routing import Handler, Route
from queenmq.errors import InvalidArgument, InvalidTimestamp, QueenError
from queenmq.service import Service

Reader = Callable[[Request], Any]  # a field's value, or None if the request leaves it out


def routes(call: type[Call[Any]], service: Service) -> Iterator[Route]:
    """The routes of a call that a service answers."""
    for shape in shapes(call):
        yield route(shape, _handler(shape, service), takes=shape.body_type, gives=answer_type(call))


def route(shape: Shape, handler: Handler, *, takes: Any = None, gives: Any = None) -> Route:
    """The route of a call at one of its addresses."""
    endpoint = shape.endpoint
    query = {field.encode_name: _meaning(shape, field) for field in shape.query}
    return Route(endpoint.method, endpoint.path, handler, endpoint.role, shape.call, takes, gives, query)


def _handler(shape: Shape, service: Service) -> Handler:
    readers = [(field.name, _reader(field)) for field in shape.query]
    body = None if shape.body_type is None else msgspec.json.Decoder(shape.body_type)
    status = shape.endpoint.status

    async def handle(broker: Broker, request: Request) -> Response:
        values = {**shape.endpoint.defaults}
        values |= {field.name: request.path_parameters[field.name] for field in shape.path}
        if shape.endpoint.method == "DELETE":
            _refuse_empty(shape, request)
        for name, read in readers:
            if (value := read(request)) is not None:
                values[name] = value
        if body is not None:
            given = await _body(shape, request, body)
            values |= {field.name: getattr(given, field.name) for field in shape.body}
        call = shape.call(**values)
        if not call.large:
            return answer(await service(broker, call), status)
        room = broker.engine.room
        async with room.reading(room.lists):
            return answer(await service(broker, call), status)

    return handle


def _refuse_empty(shape: Shape, request: Request) -> None:
    """Refuse an empty parameter: if it counted as left out, more would be deleted than was meant."""
    for field in shape.query:
        if request.query.get(field.encode_name) == "":
            raise InvalidArgument(f"{field.encode_name} is empty; leave it out, or say what is meant")


async def _body(shape: Shape, request: Request, decoder: "msgspec.json.Decoder[Any]") -> Struct:
    optional = all(not field.required for field in shape.body)
    try:
        given: Struct = await (request.json_or(decoder.type(), decoder) if optional else request.json(decoder))
    except UnexpectedBody as error:
        raise _refusal(shape, error) from None
    return given


def _refusal(shape: Shape, error: UnexpectedBody) -> QueenError:
    """The error for a field that has one of its own, or is a timestamp."""
    for field in shape.body:
        if f"`$.{field.encode_name}" in error.message:
            if field.name in shape.endpoint.refusals:
                return shape.endpoint.refusals[field.name](error.message)
            if isinstance(kind_of(field)[0], DateTimeType):
                return InvalidTimestamp(error.message)
    return error


def _reader(field: FieldInfo) -> Reader:
    """How a field is read from the query."""
    name = field.encode_name
    kind, _ = kind_of(field)
    if isinstance(kind, IntType):
        return lambda request: _number(request, name, kind)
    if isinstance(kind, BoolType):
        return lambda request: request.flag(name) if name in request.query else None
    if isinstance(kind, DateTimeType):
        return lambda request: request.moment(name)
    if isinstance(kind, ListType):
        return lambda request: None if (text := request.text(name)) is None else text.split(",")
    if isinstance(kind, LiteralType):
        return lambda request: _choice(request, name, kind)
    return lambda request: request.text(name)


def _number(request: Request, name: str, kind: IntType) -> int | None:
    text = request.query.get(name)
    if text is None:
        return None
    value = whole_number(text)
    if value is None:
        raise InvalidArgument(f"{name} is a whole number, not {text[:40]!r}")
    check_number(name, value, kind)
    return value


def _choice(request: Request, name: str, kind: LiteralType) -> str | None:
    text = request.text(name)
    if text is not None and text not in kind.values:
        raise InvalidArgument(f"{name} is one of {', '.join(map(str, kind.values))}, not {text[:40]!r}")
    return text


def _meaning(shape: Shape, field: FieldInfo) -> str:
    """What a parameter means, for the reference: its description, its range and what counts if it is left out."""
    kind, description = kind_of(field)
    default = shape.endpoint.defaults.get(field.name, field.default)
    facts = []
    if isinstance(kind, IntType) and kind.le is not None:
        facts.append(f"from {kind.ge} to {kind.le}")
    if isinstance(kind, LiteralType):
        facts.append(", ".join(map(str, kind.values)))
    if default is not None:
        facts.append(f"default {str(default).lower() if isinstance(default, bool) else default}")
    return f"{description} ({'; '.join(facts)})" if facts else description
