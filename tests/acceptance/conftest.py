"""The published client, in a virtual environment of its own, where nothing of ours can be imported."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.issuer import SECRET
from tests.fixtures.servers import Served

LOCK = Path(__file__).with_name("requirements.lock")


@pytest.fixture(scope="session")
def client_python(pytestconfig: pytest.Config) -> Path:
    """The interpreter that has the client; made on first use, and again when the lock or our Python changes."""
    key = hashlib.sha256(LOCK.read_bytes() + sys.version.encode()).hexdigest()[:16]
    assert pytestconfig.cache is not None
    home = pytestconfig.cache.mkdir("acceptance") / key
    python = home / "bin" / "python"
    complete = home / "complete"
    if not complete.exists():
        shutil.rmtree(home, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", home], check=True)
        install = [python, "-m", "pip", "install", "--quiet", "--require-hashes", "--requirement", LOCK]
        subprocess.run(install, check=True, env=os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"})
        complete.touch()
    return python


@pytest.fixture(scope="module")
def server(module_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server to which not much is new: a subscription in mode `new` looks back two of these pauses."""
    settings: dict[str, object] = {"poll_interval_min_ms": 100, "poll_interval_max_ms": 100}
    served = Served(tmp_path_factory.mktemp("server") / "server", module_database, settings)
    yield served
    sys.stderr.write(served.log)
    served.end()


@pytest.fixture(scope="module")
def guarded(module_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that asks for a token."""
    served = Served(tmp_path_factory.mktemp("guarded") / "server", module_database, {"auth_secret": SECRET})
    yield served
    sys.stderr.write(served.log)
    served.end()
