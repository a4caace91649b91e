"""GET /openapi.json, made of the route table and the structs; and GET /docs, a page to read it and to try it."""

import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import fields

from queenmq import __version__
from queenmq.broker.broker import Broker
from queenmq.broker.http import JSON, Request, Response
from queenmq.broker.routing import Handler, Route

PAGE = Path(__file__).with_name("docs.html")
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HTML = (("content-type", "text/html; charset=utf-8"), ("content-security-policy", POLICY))
PREFIX = "/api/v1"
REFERENCE = "#/components/schemas/{name}"
ABOUT = "Names in paths may hold anything when they are percent-encoded. Times are ISO 8601 in UTC; ids are opaque."

Schema = dict[str, Any]

_WORD_ENDS = re.compile(r"\W+")
_PARAMETER = re.compile(r"\{(\w+)\}")


class Failure(Struct):
    """What every error looks like."""

    error: str  # a sentence
    code: str  # stable, to be matched by programs
    hint: str | None = None  # what to do about it, where the sentence does not say so


def description_of(routes: Callable[[], Sequence[Route]]) -> Handler:
    """What answers with a description of routes. It is made once, when somebody asks for it."""

    @cache
    def description() -> bytes:
        return describe(routes())

    async def openapi(_broker: Broker, _request: Request) -> Response:
        """The description of this API, as OpenAPI 3.1."""
        return Response(200, description(), (JSON,))

    return openapi


async def docs(_broker: Broker, _request: Request) -> Response:
    """A page to read this API and to try it."""
    return Response(200, PAGE.read_bytes(), HTML)


def describe(routes: Sequence[Route]) -> bytes:
    """All routes as an OpenAPI document."""
    kinds = [Failure, *(kind for route in routes for kind in (route.takes, route.gives) if kind is not None)]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=REFERENCE)
    schema_of = iter(schemas)
    failure = next(schema_of)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        takes, gives = (next(schema_of) if kind is not None else None for kind in (route.takes, route.gives))
        paths.setdefault(route.pattern, {})[route.method.lower()] = _operation(route, takes, gives, failure)
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Queen", "version": __version__, "description": ABOUT},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}},
        },
    }
    return msgspec.json.encode(document)


def _operation(route: Route, takes: Schema | None, gives: Schema | None, failure: Schema) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": _WORD_ENDS.sub("_", f"{route.method.lower()}{route.pattern.removeprefix(PREFIX)}").strip("_"),
        "summary": route.summary,
        "tags": [route.tag],
        "parameters": [
            *(_parameter(name, "path", f"the {name.replace('_', ' ')}") for name in _PARAMETER.findall(route.pattern)),
            *(_parameter(name, "query", meaning) for name, meaning in route.query.items()),
        ],
        "responses": {
            "2XX": _answer("It worked.", gives),
            "4XX": _answer("The request was refused.", failure),
            "5XX": _answer("The server cannot do it, or not now.", failure),
        },
    }
    if takes is not None:
        content = {"application/json": {"schema": takes}}
        operation["requestBody"] = {"required": _is_required(route.takes), "content": content}
    if route.role is not None:
        # Where authentication is off, nobody needs a token.
        operation["security"] = [{}, {"token": []}]
        operation["description"] = f"Where tokens are asked for, they need the role {route.role}."
    return operation


def _is_required(body: Any) -> bool:
    """Whether a body has a field that must be given; if not, the body may be left out."""
    return not (isinstance(body, type) and issubclass(body, Struct)) or any(field.required for field in fields(body))


def _parameter(name: str, place: str, meaning: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": place,
        "required": place == "path",
        "description": meaning,
        "schema": {"type": "string"},
    }


def _answer(description: str, schema: Schema | None) -> dict[str, Any]:
    return {"description": description} | ({"content": {"application/json": {"schema": schema}}} if schema else {})
