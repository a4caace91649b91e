"""/openapi.json: complete, true to what the server answers, and good for trying everything at random."""

import json
import re

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode

from queenmq.broker.app import ROUTES
from queenmq.broker.openapi import describe
from queenmq.broker.routing import Route

EXAMPLES = 10  # of each route and mode: a minute for all of them, also on a busy machine
WAIT_MS = "50"  # a long poll that is asked for at random must not take its time
SCHEMA = schemathesis.openapi.from_dict(json.loads(describe(ROUTES)))


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


def test_every_reference_leads_somewhere(api):
    references = set(re.findall(r'"\$ref": "#/components/schemas/([^"]+)"', json.dumps(api)))
    assert references <= api["components"]["schemas"].keys()


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


@pytest.fixture
async def without_maintenance(server):
    """Whatever a test has switched on is off again."""
    yield
    async with server.client() as http:
        for path in ("/system/maintenance", "/system/maintenance/pop"):
            assert (await http.post(path, json={"enabled": False})).status_code == 200


@pytest.mark.parametrize(
    ("route", "mode"),
    # Where nothing but texts is taken, nothing can be of the wrong type.
    [(route, mode) for route in ROUTES for mode in GenerationMode if mode.is_positive or route.takes is not None],
    ids=lambda value: f"{value.method} {value.pattern}" if isinstance(value, Route) else value.value,
)
@pytest.mark.usefixtures("without_maintenance")
def test_whatever_is_sent_is_answered_and_never_with_a_5xx(server, route, mode):
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(case=SCHEMA[route.pattern][route.method].as_strategy(mode))
    def check(case):
        if "timeout" in case.query:
            case.query["timeout"] = WAIT_MS
        answer = case.call(base_url=server.url)
        assert answer.status_code < 500, answer.text
        if answer.status_code >= 400:
            told = answer.json()
            assert all(isinstance(told[name], str) and told[name] for name in ("error", "code", "hint")), told

    check()
