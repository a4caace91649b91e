"""The commands of docs/high-availability.md, run on a primary and a standby of their own."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import asyncpg

from queenmq.engine.postgres.embedded.binaries import wheel_bin_dir
from queenmq.engine.postgres.migrate import migrate
from tests.docs.page import ROOT, RUN, blocks, commands, statements
from tests.docs.reader import compare
from tests.fixtures.replication import HOST, free_port

PAGE = "docs/high-availability.md"
SECONDS_MAX = 60


def tools(directory, account, port):
    """Programs of PostgreSQL as its account runs them; the page's standby gets a port beside that of the primary."""
    directory.mkdir()
    become = f"setpriv --reuid={account.uid} --regid={account.gid} --clear-groups " if account.switches else ""
    for name in ("pg_basebackup", "pg_ctl"):
        program = shlex.quote(str(wheel_bin_dir() / name))
        options = f'-o "-p {port}"' if name == "pg_ctl" else ""
        start = f'case "$1" in start) exec {become}{program} "$@" {options} ;; esac\n' if options else ""
        (directory / name).write_text(f'#!/bin/sh\ncd /\n{start}exec {become}{program} "$@"\n')
        (directory / name).chmod(0o755)
    return directory


def run(command, environment):
    done = subprocess.run(
        ["/bin/sh", "-ec", command], env=environment, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout.splitlines()


async def test_every_command_of_the_page_does_what_it_says(replication, tmp_path):
    primary, account = replication.primary, replication.primary.postgres._account
    await primary.execute("create database queen")
    connection = await asyncpg.connect(primary.dsn("queen"))
    await migrate(connection)
    port = free_port()
    home = primary.postgres.data_dir.parent / "page"
    home.mkdir()
    account.give(home)
    path = [tools(tmp_path / "tools", account, port), Path(sys.executable).parent, wheel_bin_dir(), os.environ["PATH"]]
    environment = os.environ | {
        "PATH": os.pathsep.join(map(str, path)),
        "QUEEN_DSN": primary.dsn("queen"),
        "COLUMNS": "200",
        "PRIMARY": f"{HOST}:{primary.port}",
        "PRIMARY_DATA": str(primary.postgres.pgdata),
        "STANDBY": f"{HOST}:{port}",
        "STANDBY_DATA": str(home / "standby"),
    }
    try:
        for block in blocks((ROOT / PAGE).read_text(), PAGE):
            if block.language not in RUN:
                continue
            assert block.not_run is None
            if block.language == "sql":
                for statement in statements(block.text):
                    rows = [str(row[0]) for row in await connection.fetch(statement.text)]
                    compare(statement.promised or rows, rows)
            else:
                for command in commands(block.text):
                    output = run(command.text, environment)
                    compare(command.promised or output, output)
    finally:
        connection.terminate()
        if (home / "standby" / "postmaster.pid").exists():
            run('pg_ctl stop --mode=immediate --pgdata="$STANDBY_DATA"', environment)
