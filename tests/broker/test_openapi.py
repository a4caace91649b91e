"""/openapi.json: complete and valid. `test_hostile_requests` sends what it describes."""

import re

import httpx
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from queenmq.broker.app import ROUTES


@pytest.fixture(scope="module")
def api(server):
    answer = httpx.get(f"{server.url}/openapi.json")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    return answer.json()


def test_every_route_is_described(api):
    described = {(method.upper(), path) for path, methods in api["paths"].items() for method in methods}
    assert described == {(route.method, route.pattern) for route in ROUTES}
    ids = [operation["operationId"] for methods in api["paths"].values() for operation in methods.values()]
    assert len(ids) == len(set(ids))


def test_the_description_is_valid_openapi(api):
    OpenAPIV31SpecValidator(api).validate()


def test_arrays_describe_their_items_as_every_tool_understands(api):
    """Some tools know `items` as a schema only, and neither `false` nor `prefixItems`."""
    for schema in _schemas(api):
        assert isinstance(schema.get("items", {}), dict)
        assert "prefixItems" not in schema


def _schemas(part):
    """Everything in a document that is an object."""
    if isinstance(part, dict):
        yield part
    for each in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from _schemas(each)


def test_every_route_explains_itself(api):
    for methods in api["paths"].values():
        for operation in methods.values():
            assert operation["summary"].endswith(".")
            assert all(p["in"] == "path" or p["description"] for p in operation["parameters"])
            assert operation["responses"]["4XX"]["content"]["application/json"]["schema"]["$ref"].endswith("/Failure")


def test_routes_that_need_a_token_say_so(api):
    for route in ROUTES:
        operation = api["paths"][route.pattern][route.method.lower()]
        assert ("security" in operation) == (route.role is not None)
    assert api["components"]["securitySchemes"]["token"]["scheme"] == "bearer"


async def test_the_page_needs_nothing_from_elsewhere(server):
    async with httpx.AsyncClient(base_url=server.url) as client:
        page = await client.get("/docs")
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "//" not in re.sub(r"https?://www.w3.org\S*", "", " ".join(re.findall(r'(?:src|href)="([^"]*)"', page.text)))
