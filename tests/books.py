"""What must be true of a database at the end of every test, whatever happened in it."""

from datetime import datetime
from typing import Any


async def assert_the_books_balance(connection: Any, now: datetime) -> None:
    """Nothing in the tables contradicts anything else, and every message is accounted for."""
    complaints = await connection.fetch("select * from queen.check_consistency($1)", now)
    unbalanced = await connection.fetch("select * from queen.ledger where not balanced")
    wrong = [dict(row) for row in [*complaints, *unbalanced]]
    assert wrong == [], wrong
