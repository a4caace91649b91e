"""Fixtures are plugins by topic: see tests/fixtures/. Tests run two at a time, a file in one process."""

import os
import signal
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
LONGEST = ("spark", "docs", "examples", "faults", "model")  # where the longest files are
PATIENT_SECONDS = 400  # for a test in one of these folders, with its fixtures
PATIENT = {*LONGEST, "acceptance", "dashboard", "interleavings", "poolers"}
ENDLESS = ("HYPOTHESIS_PROFILE", "QUEEN_TEST_CHAOS_SECONDS")  # whoever sets one of these wants a run of hours

pytest_plugins = [
    "tests.fixtures.browsers",
    "tests.fixtures.clusters",
    "tests.fixtures.databases",
    "tests.fixtures.pgbouncer",
    "tests.fixtures.proxy",
    "tests.fixtures.replication",
    "tests.fixtures.servers",
]


def pytest_addoption(parser):
    parser.addoption("--refresh-schema-dump", action="store_true", help="write tests/migrations/schema.sql anew")
    parser.addoption(
        "--everything", action="store_true", help="all tests of `every_postgres`, all clients and transports"
    )


def pytest_configure():
    """Let programs of the tests hear Ctrl-C: a run in the background of a shell inherits that it is ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    """What takes longest begins, so that no process is left alone with it at the end, and has more time."""

    def folder(item):
        return item.path.relative_to(TESTS).parts[0]

    for item in items:
        if folder(item) in PATIENT and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(PATIENT_SECONDS))
        if any(name in os.environ for name in ENDLESS):
            item.add_marker(pytest.mark.timeout(0), append=False)
    items.sort(key=lambda item: LONGEST.index(folder(item)) if folder(item) in LONGEST else len(LONGEST))


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable(report):
    """Half a surrogate pair in a report would end the whole run: pytest-xdist sends UTF-8 between its processes."""
    return _in_utf_8((yield))


def _in_utf_8(value):
    match value:
        case str():
            return value.encode(errors="backslashreplace").decode()
        case dict():
            return {_in_utf_8(key): _in_utf_8(each) for key, each in value.items()}
        case list() | tuple():
            return type(value)(map(_in_utf_8, value))
    return value


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Who shares a fixture runs in one process: a file, and all that use Spark.

    Not by marks and `--dist loadgroup`: pytest-xdist 3.8 writes the groups into names of tests that pytest 9.2 no
    longer reads, and without a word every test goes its own way.
    """
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415 (it is not there without the plugin)

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.split("::", maxsplit=1)[0]
            return "spark" if file.startswith("tests/spark/") else file

    config.option.loadscopereorder = False  # by the number of their tests: our order is by time
    return ByFile(config, log)
