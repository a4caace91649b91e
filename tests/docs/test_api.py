"""docs/api.md is what the generator makes of the declared calls."""

from queenmq.broker.app import ROUTES
from tools import api_docs


def test_the_page_is_what_the_generator_writes():
    assert api_docs.PAGE.read_text() == api_docs.generate(), "run: make api-docs"


def test_every_route_is_on_the_page():
    page = api_docs.PAGE.read_text()
    assert [route.pattern for route in ROUTES if f"### {route.method} {route.pattern}\n" not in page] == []
