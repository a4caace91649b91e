"""SQLSTATE to error: our own codes, and those of PostgreSQL that are worth another try."""

import asyncpg

from queenmq.errors import BY_SQLSTATE, Busy, DatabaseUnavailable, InvalidArgument, QueenError, TimedOut

# PostgreSQL's own conditions that are worth another try, by SQLSTATE or by its class (two characters).
POSTGRES: dict[str, type[QueenError]] = {
    **dict.fromkeys(("08", "53"), DatabaseUnavailable),  # connection exception; out of disk, memory or connections
    **dict.fromkeys(("57P01", "57P02", "57P03", "57P05"), DatabaseUnavailable),  # shut down, not up yet, idle too long
    "25006": DatabaseUnavailable,  # read only: a standby, until it is promoted
    "3D000": DatabaseUnavailable,  # the database does not exist: it was dropped, and is perhaps made again
    **dict.fromkeys(("3F000", "42883", "42P01"), DatabaseUnavailable),  # the same of the schema, a function, a table
    **dict.fromkeys(("57014", "55P03"), TimedOut),  # statement timeout, lock not available
    **dict.fromkeys(("40001", "40P01"), Busy),  # serialization failure, deadlock detected
}


def from_sqlstate(sqlstate: str, message: str | None = None, detail: str | None = None) -> QueenError | None:
    """The error that a SQLSTATE stands for; None when it is neither ours nor one we have a word for."""
    found = BY_SQLSTATE.get(sqlstate) or POSTGRES.get(sqlstate) or POSTGRES.get(sqlstate[:2])
    return None if found is None else found(message, detail=detail)


def translate(error: asyncpg.PostgresError) -> QueenError:
    """Their error in our words."""
    if isinstance(error, asyncpg.QueryCanceledError | asyncpg.LockNotAvailableError):
        return TimedOut(f"PostgreSQL gave up: {sentence(error)}")
    if isinstance(error, asyncpg.DataError):  # a value that its type cannot hold, noticed by asyncpg or by PostgreSQL
        return InvalidArgument(sentence(error))
    ours = from_sqlstate(error.sqlstate, sentence(error), error.detail)
    return ours or QueenError(f"PostgreSQL refused the call: {sentence(error)} ({error.sqlstate})")


def sentence(error: Exception) -> str:
    """What went wrong, without the lines "DETAIL: …" and "HINT: …" that asyncpg adds to an error of PostgreSQL."""
    if isinstance(error, asyncpg.PostgresError) and error.args:
        return str(error.args[0])
    return str(error) or "it did not answer in time"  # a TimeoutError says nothing
