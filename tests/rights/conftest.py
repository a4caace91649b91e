"""A role that owns its database and has no other right: no superuser, no membership, no revocable function."""

import itertools
import os
from collections.abc import AsyncIterator
from typing import NamedTuple
from urllib.parse import urlsplit

import asyncpg
import pytest

_number = itertools.count(1)

# What a strict administrator, or a managed service, may keep from everybody else.
REVOKED = (
    "pg_control_system()",
    "pg_control_checkpoint()",
    "pg_terminate_backend(int, bigint)",
    "pg_cancel_backend(int)",
)
ROLE = "nosuperuser nocreatedb nocreaterole noreplication nobypassrls"


class Owner(NamedTuple):
    """The role, and how it connects to its empty database."""

    role: str
    dsn: str


@pytest.fixture
async def owner(blank_database: str) -> AsyncIterator[Owner]:
    """The owner of the blank database, with no other right."""
    role = f"owner_{os.getpid()}_{next(_number)}"
    url = urlsplit(blank_database)
    admin = await asyncpg.connect(blank_database)
    name = await admin.fetchval("select current_database()")
    await admin.execute(f"create role {role} login {ROLE}")
    await admin.execute(f"alter database {name} owner to {role}")
    for function in REVOKED:
        await admin.execute(f"revoke execute on function pg_catalog.{function} from public")
    yield Owner(role, url._replace(netloc=url.netloc.replace(url.username or "", role, 1)).geturl())
    await admin.execute(f"alter database {name} owner to current_user")
    await admin.execute(f"drop owned by {role} cascade")
    await admin.execute(f"drop role {role}")
    await admin.close()
