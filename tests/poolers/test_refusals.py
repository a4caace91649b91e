"""An address that cannot work is refused when an engine opens, with a sentence that says what to set."""

import subprocess
import sys

import pytest

from queenmq import AsyncQueen
from queenmq.config import Settings
from queenmq.engine import Engine
from queenmq.errors import ConfigurationError
from queenmq.spark.connection import Connection
from tests.engine.shorthand import messages

ADVICE = "set QUEEN_SESSION_DSN to the address of PostgreSQL itself"


async def open_and_close(dsn, **settings):
    async with Engine(dsn, Settings(**settings)) as engine:
        await engine.push(messages("orders", 1))


@pytest.mark.parametrize("mode", ["transaction", "statement"])
@pytest.mark.parametrize("size", [1, 20])
async def test_a_pooler_of_transactions_needs_a_session_address(start_pooler, mode, size):
    pooler = start_pooler(mode, default_pool_size=size)
    with pytest.raises(ConfigurationError, match=f"QUEEN_DSN leads to a pooler .*{ADVICE}"):
        await open_and_close(pooler.dsn)


async def test_a_refused_pooler_keeps_no_settings_of_ours(start_pooler, connect_through):
    pooler = start_pooler("transaction")
    with pytest.raises(ConfigurationError):
        await open_and_close(pooler.dsn)
    client = await connect_through(pooler.dsn)
    assert await client.fetchval("select current_setting('search_path')") == '"$user", public'
    assert await client.fetchval("select current_setting('statement_timeout')") == "0"


async def test_the_session_address_must_not_lead_to_a_pooler_of_transactions(start_pooler):
    dsn = start_pooler("transaction").dsn
    with pytest.raises(ConfigurationError, match="QUEEN_SESSION_DSN leads to a pooler"):
        await open_and_close(dsn, session_dsn=dsn)


async def test_the_session_address_must_lead_to_the_same_database(start_pooler, blank_database, connect_blank):
    with pytest.raises(ConfigurationError, match="QUEEN_SESSION_DSN leads to another database than QUEEN_DSN"):
        await open_and_close(start_pooler("transaction").dsn, session_dsn=blank_database)
    assert await (await connect_blank()).fetchval("select to_regnamespace('queen')") is None


async def test_a_session_address_beside_a_direct_one_is_used(database, start_pooler):
    await open_and_close(database, session_dsn=start_pooler("session").dsn)


@pytest.mark.parametrize(
    ("setting", "value", "needed"),
    [
        ("default_transaction_isolation", "repeatable read", "read committed"),
        ("client_min_messages", "error", "warning"),
    ],
)
async def test_a_role_with_unusable_settings_is_refused(start_pooler, database, connection, setting, value, needed):
    name = await connection.fetchval("select current_database()")
    await connection.execute(f"alter database {name} set {setting} = '{value}'")
    with pytest.raises(ConfigurationError, match=f"ALTER ROLE postgres SET {setting} = '{needed}'"):
        await open_and_close(start_pooler("transaction").dsn, session_dsn=database)
    await open_and_close(start_pooler("session").dsn)  # a session sets it itself


async def test_the_sdk_says_the_same(start_pooler):
    queen = AsyncQueen(start_pooler("transaction").dsn)
    with pytest.raises(ConfigurationError, match=ADVICE):
        await queen.queue("orders").push(1)
    await queen.close()


def test_spark_says_the_same(start_pooler):
    with pytest.raises(ConfigurationError, match=ADVICE):
        Connection(start_pooler("transaction").dsn, Settings())


@pytest.mark.parametrize(
    "command", [["serve", "--port", "0"], ["migrate"], ["push", "orders", "1"]], ids=lambda c: c[0]
)
def test_the_command_line_says_the_same_and_ends(start_pooler, tmp_path, command):
    done = subprocess.run(
        [sys.executable, "-c", "from queenmq.cli import main; raise SystemExit(main())", *command],
        env={"QUEEN_DSN": start_pooler("transaction").dsn, "QUEEN_DATA_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert ADVICE in " ".join(done.stderr.split())
