"""Fixtures are plugins by topic: see tests/fixtures/. Tests run two at a time, a file in one process."""

from pathlib import Path

import pytest

SPARK = Path(__file__).parent / "spark"

pytest_plugins = [
    "tests.fixtures.clusters",
    "tests.fixtures.databases",
    "tests.fixtures.proxy",
    "tests.fixtures.servers",
]


def pytest_addoption(parser):
    parser.addoption("--refresh-schema-dump", action="store_true", help="write tests/migrations/schema.sql anew")


def pytest_collection_modifyitems(items):
    """Who shares a fixture runs in one process: a file, and all that use Spark. These take longest and begin."""
    for item in items:
        item.add_marker(pytest.mark.xdist_group("spark" if SPARK in item.path.parents else item.path.name))
    items.sort(key=lambda item: SPARK not in item.path.parents)
