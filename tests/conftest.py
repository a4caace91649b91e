"""Fixtures are plugins by topic: see tests/fixtures/."""

pytest_plugins = [
    "tests.fixtures.clusters",
    "tests.fixtures.databases",
    "tests.fixtures.proxy",
    "tests.fixtures.servers",
]


def pytest_addoption(parser):
    parser.addoption("--refresh-schema-dump", action="store_true", help="write tests/migrations/schema.sql anew")
