"""Everything that can go wrong, in one tree.

QueenError
├── Refused                  sent as is, it will never work
│   ├── InvalidArgument      QN400  400
│   ├── InvalidName          QN421  400
│   ├── InvalidPayload       QN422  400
│   ├── PayloadTooLarge      QN413  413
│   ├── InvalidSetting       QN423  400
│   ├── InvalidStatus        QN424  400
│   ├── InvalidTimestamp     QN425  400
│   ├── InvalidTraceId       QN426  400
│   ├── EncryptionRequired   QN427  400
│   ├── InvalidHeaders       QN428  400
│   ├── QueueNotFound        QN404  404
│   ├── PartitionNotFound    QN405  404
│   ├── MessageNotFound      QN406  404
│   ├── GroupNotFound        QN407  404
│   ├── NotInLease           QN411  409
│   ├── LeaseGone            QN410  410
│   ├── NotPending           QN412  409
│   ├── PositionLost         QN431  409
│   ├── QueueFull            QN429  429
│   ├── InvalidJson                 400
│   ├── BodyTooLarge                413
│   ├── TooManyItems                413
│   ├── BodyTimeout                 408
│   ├── NoSuchRoute                 404
│   ├── MethodNotAllowed            405
│   ├── Unauthorized                401
│   │   └── InvalidToken            401
│   ├── Forbidden                   403
│   ├── SchemaTooNew         QN409  500
│   └── ConfigurationError          500
└── Unavailable                     503  try again: PostgreSQL or the server is out of reach
    ├── Paused
    ├── DatabaseUnavailable
    ├── Closed
    ├── Busy
    ├── TimedOut
    └── HistoryChanged       QN430  503

SQL functions raise the QN codes as SQLSTATE, which the engine turns into these classes; the HTTP server answers
with `http_status` and `code`, by which an SDK finds the class. A class's docstring is its message when none is given.
`hint` says what to do next; it is None where the message of each error says so itself.
"""

import contextlib
import inspect
from functools import partial
from typing import Any, ClassVar

import msgspec


class QueenError(Exception):
    """Something went wrong in Queen."""

    code: ClassVar[str] = "QUEEN_ERROR"
    sqlstate: ClassVar[str | None] = None
    http_status: ClassVar[int] = 500
    hint: ClassVar[str | None] = "Look at the server's log for the cause."
    retryable: ClassVar[bool] = False

    def __init__(self, message: str | None = None, *, detail: str | None = None) -> None:
        self.message = message or inspect.getdoc(type(self)) or self.code
        self.detail = detail
        super().__init__(self.message)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), detail=self.detail), (self.message,)


class Refused(QueenError):
    """The request was refused; sent as is, it will never work."""

    code = "REFUSED"
    http_status = 400
    hint: ClassVar[str | None] = None


class InvalidArgument(Refused):
    """An argument is missing, of the wrong type or out of range."""

    code = "INVALID_ARGUMENT"
    sqlstate = "QN400"


class InvalidName(Refused):
    """A queue, partition, group, namespace or task name is not acceptable."""

    code = "INVALID_NAME"
    sqlstate = "QN421"


class InvalidPayload(Refused):
    """The payload is not JSON that PostgreSQL can hold."""

    code = "INVALID_PAYLOAD"
    sqlstate = "QN422"
    hint = "Send valid JSON in UTF-8, without the character U+0000."


class PayloadTooLarge(Refused):
    """The payload is larger than this server accepts."""

    code = "PAYLOAD_TOO_LARGE"
    sqlstate = "QN413"
    http_status = 413
    hint = "Store the data elsewhere and push a reference, or raise QUEEN_PAYLOAD_BYTES_MAX."


class InvalidSetting(Refused):
    """A queue setting is unknown or out of range."""

    code = "INVALID_SETTING"
    sqlstate = "QN423"


class InvalidStatus(Refused):
    """An acknowledgement carries a status that does not exist."""

    code = "INVALID_STATUS"
    sqlstate = "QN424"
    hint = "Acknowledge with completed, failed, retry or dlq."


class InvalidTimestamp(Refused):
    """A timestamp cannot be read or lies outside what is possible."""

    code = "INVALID_TIMESTAMP"
    sqlstate = "QN425"
    hint = "Send RFC 3339 with a time zone, such as 2025-01-31T12:00:00Z."


class InvalidTraceId(Refused):
    """A trace id is not a UUID."""

    code = "INVALID_TRACE_ID"
    sqlstate = "QN426"
    hint = "A trace id is a UUID, such as 018f3a5e-7c1b-7e5d-9a3c-2f4b6d8e0a1c."


class EncryptionRequired(Refused):
    """The queue is encrypted, and there is no key for this message."""

    code = "ENCRYPTION_REQUIRED"
    sqlstate = "QN427"
    hint = "Set QUEEN_ENCRYPTION_KEYS on every server that reads or writes this queue."


class InvalidHeaders(Refused):
    """The headers are not a small object of strings."""

    code = "INVALID_HEADERS"
    sqlstate = "QN428"
    hint = "Send up to 32 strings by name, names of 1 to 128 characters, 4096 bytes of JSON at most."


class QueueNotFound(Refused):
    """There is no queue of this name."""

    code = "QUEUE_NOT_FOUND"
    sqlstate = "QN404"
    http_status = 404
    hint = "Names are case-sensitive; `queen queues` lists them. The first push creates a queue."


class PartitionNotFound(Refused):
    """There is no partition of this name in the queue."""

    code = "PARTITION_NOT_FOUND"
    sqlstate = "QN405"
    http_status = 404
    hint = "A partition begins to exist with the first push to it; names are case-sensitive."


class MessageNotFound(Refused):
    """There is no such message, or no longer."""

    code = "MESSAGE_NOT_FOUND"
    sqlstate = "QN406"
    http_status = 404
    hint = "It may have been removed by retention or with its partition."


class GroupNotFound(Refused):
    """There is no consumer group of this name here."""

    code = "GROUP_NOT_FOUND"
    sqlstate = "QN407"
    http_status = 404
    hint = "A group begins to exist with its first pop; names are case-sensitive."


class NotInLease(Refused):
    """The message is not part of this lease."""

    code = "NOT_IN_LEASE"
    sqlstate = "QN411"
    http_status = 409
    hint = "Acknowledge a message with the lease it was delivered with."


class LeaseGone(Refused):
    """The lease has expired or was given to someone else."""

    code = "LEASE_GONE"
    sqlstate = "QN410"
    http_status = 410
    hint = "Drop the work and pop again; renew leases in time or ask for longer ones."


class NotPending(Refused):
    """Nobody waits for this message in the way that the call supposes."""

    code = "NOT_PENDING"
    sqlstate = "QN412"
    http_status = 409


class PositionLost(Refused):
    """PostgreSQL has lost the position: it went back to an earlier state since then."""

    code = "POSITION_LOST"
    sqlstate = "QN431"
    http_status = 409
    hint = "Read again from a position that the database has, or from the beginning."


class Fullness(msgspec.Struct, frozen=True):
    """What the database tells of a full queue."""

    queue: str | None = None
    depth: int | None = None
    limit: int | None = None


class QueueFull(Refused):
    """The queue holds as many messages as its limit allows."""

    code = "QUEUE_FULL"
    sqlstate = "QN429"
    http_status = 429
    hint = "Push again when consumers have caught up, or fewer messages at once, or raise the queue's limit."

    def __init__(self, message: str | None = None, *, detail: str | None = None) -> None:
        super().__init__(message, detail=detail)
        told = Fullness()
        with contextlib.suppress(msgspec.DecodeError):
            told = msgspec.json.decode(detail or "{}", type=Fullness)
        self.queue, self.depth, self.limit = told.queue, told.depth, told.limit


class SchemaTooNew(Refused):
    """The database was migrated by a newer Queen, in a way this one cannot work with."""

    code = "SCHEMA_TOO_NEW"
    sqlstate = "QN409"
    http_status = 500
    hint = "Upgrade this installation of queenmq."


class ConfigurationError(Refused):
    """A QUEEN_* setting is unknown or has an invalid value."""

    code = "CONFIGURATION_ERROR"
    http_status = 500


class InvalidJson(Refused):
    """The body is not JSON."""

    code = "INVALID_JSON"
    hint = "Send a JSON body in UTF-8."


class BodyTooLarge(Refused):
    """The body is larger than this server accepts."""

    code = "BODY_TOO_LARGE"
    http_status = 413
    hint = "Send less at once, or raise QUEEN_BODY_BYTES_MAX."


class TooManyItems(Refused):
    """The request has more items than this server accepts."""

    code = "TOO_MANY_ITEMS"
    http_status = 413
    hint = "Send fewer at once, or raise QUEEN_PUSH_ITEMS_MAX."


class BodyTimeout(Refused):
    """The body did not arrive in time."""

    code = "BODY_TIMEOUT"
    http_status = 408
    hint = "Send the body without pauses, or raise QUEEN_BODY_TIMEOUT_MS."


class NoSuchRoute(Refused):
    """There is nothing at this address."""

    code = "NO_SUCH_ROUTE"
    http_status = 404
    hint = "All addresses are in /openapi.json."


class MethodNotAllowed(Refused):
    """This address does not take this method."""

    code = "METHOD_NOT_ALLOWED"
    http_status = 405
    hint = "The methods of all addresses are in /openapi.json."


class Unauthorized(Refused):
    """The request carries no valid token."""

    code = "UNAUTHORIZED"
    http_status = 401
    hint = "Send a token this server accepts: Authorization: Bearer <token>."
    challenge: ClassVar[str] = 'Bearer realm="queen"'


class InvalidToken(Unauthorized):
    """The request carries a token that is not valid here and now."""

    code = "INVALID_TOKEN"
    hint = "Get a new token from its issuer; compare its claims with what docs/server.md asks for."
    challenge = 'Bearer realm="queen", error="invalid_token"'


class Forbidden(Refused):
    """The token does not allow this."""

    code = "FORBIDDEN"
    http_status = 403
    hint = "Ask for a token with the role this call needs."


class Unavailable(QueenError):
    """PostgreSQL or the server is out of reach for the moment."""

    code = "UNAVAILABLE"
    http_status = 503
    hint = "Try again after a short pause."
    retryable = True


class Paused(Unavailable):
    """Pushes are paused for maintenance, and this server keeps no spool."""

    code = "MAINTENANCE"
    hint = "Try again when maintenance is over."


class DatabaseUnavailable(Unavailable):
    """PostgreSQL cannot be reached, or broke off the conversation."""

    code = "DATABASE_UNAVAILABLE"
    hint = "Check that PostgreSQL runs and that QUEEN_DSN points to it; then try again."


class Closed(Unavailable):
    """The engine is shutting down."""

    code = "CLOSED"
    hint = "Send the request to another server, or to this one when it is back."


class Busy(Unavailable):
    """The server is at one of its limits."""

    code = "BUSY"
    hint = "Try again after a short pause, with fewer requests at once."


class TimedOut(Unavailable):
    """PostgreSQL did not answer in time."""

    code = "TIMED_OUT"
    hint = "Try again; if it persists, look for long transactions and at QUEEN_STATEMENT_TIMEOUT_MS."


class HistoryChanged(Unavailable):
    """PostgreSQL was restarted, promoted or restored since this was read from it."""

    code = "HISTORY_CHANGED"
    sqlstate = "QN430"


def _classes(top: type[QueenError]) -> list[type[QueenError]]:
    return [top, *(each for child in top.__subclasses__() for each in _classes(child))]


BY_CODE: dict[str, type[QueenError]] = {kind.code: kind for kind in _classes(QueenError)}
BY_SQLSTATE = {kind.sqlstate: kind for kind in BY_CODE.values() if kind.sqlstate is not None}
