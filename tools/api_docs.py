"""Writes docs/api.md, the reference of the HTTP API, from the routes: `make api-docs`.

The routes are made of the calls that `queenmq.api` declares, so the page has what the server does. It is the content of
/openapi.json as Markdown.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from queenmq.broker.app import ROUTES
from queenmq.broker.openapi import describe

PAGE = Path(__file__).parents[1] / "docs/api.md"
HEAD = """# Reference of the HTTP API

<!-- Generated from the declared calls by `make api-docs`: edit src/queenmq/api, not this page. -->

Every call, with its role, its parameters, its body and its answer. [The HTTP API](http.md) explains the calls with
examples. The role counts only if the server asks for [tokens](server.md#authentication). Errors have the fields of
[Failure](#failure). A running server has this reference at `/docs` and, as OpenAPI 3.1, at `/openapi.json`.
"""

Schema = dict[str, Any]


def generate() -> str:
    """The whole page."""
    document = msgspec.json.decode(describe(ROUTES))
    nouns: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            [noun] = operation["tags"]
            nouns.setdefault(noun, []).append("\n".join(_call(method.upper(), path, operation)))
    parts = [HEAD]
    for noun in sorted(nouns):
        parts += [f"## {noun.replace('_', ' ').capitalize()}\n", *nouns[noun]]
    parts.append("## Structures\n")
    parts += ["\n".join(_structure(name, each)) for name, each in sorted(document["components"]["schemas"].items())]
    return "\n".join(parts)


def _call(method: str, path: str, operation: Schema) -> Iterator[str]:
    yield f"### {method} {path}\n"
    yield f"{operation['summary']}\n"
    facts = []
    if "security" in operation:
        facts.append(f"Role: {operation['description'].rpartition(' role ')[2].rstrip('.')}.")
    if (body := operation.get("requestBody")) is not None:
        facts.append(f"Body: {_type(_json(body))}{'' if body['required'] else ', which may be left out'}.")
    if (answer := _json(operation["responses"]["2XX"])) is not None:
        facts.append(f"Answer: {_type(answer)}.")
    if facts:
        yield f"{' '.join(facts)}\n"
    if query := [each for each in operation["parameters"] if each["in"] == "query"]:
        yield "| parameter | meaning |\n| --- | --- |"
        for each in query:
            yield f"| `{each['name']}` | {_cell(each['description'])} |"
        yield ""


def _json(part: Schema) -> Any:
    return part["content"]["application/json"]["schema"] if "content" in part else None


def _structure(name: str, schema: Schema) -> Iterator[str]:
    yield f"### {name}\n"
    if text := schema.get("description"):
        yield f"{' '.join(text.split())}\n"
    if properties := schema.get("properties"):
        yield "| field | type | |\n| --- | --- | --- |"
        for field, each in properties.items():
            needed = "" if field in schema.get("required", ()) else "may be left out"
            yield f"| `{field}` | {_cell(_type(each))} | {needed} |"
        yield ""
    else:
        yield f"{_type(schema)}\n"


def _type(schema: Schema) -> str:
    """A schema in words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_type, schema["anyOf"])))
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    kind = schema.get("type", "any JSON")
    text = " or ".join(kind) if isinstance(kind, list) else str(kind)
    if kind == "array":
        text = f"list of {_type(schema.get('items', {}))}"
    elif kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        text = f"object of {_type(schema['additionalProperties'])}"
    elif "minimum" in schema and "maximum" in schema:
        text = f"{kind} from {schema['minimum']} to {schema['maximum']}"
    return text


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> None:
    """Write the page."""
    PAGE.write_text(generate())


if __name__ == "__main__":
    main()
