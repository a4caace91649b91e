"""Logs: a line per event on standard error, for people or for programs; slow requests, and all of them if asked for.

An event is a fixed sentence and its fields. The access log is off unless it is asked for: the metrics count requests
for less, and a line for each of thousands of requests a second is more than a disk, or a reader, wants.
"""

import logging
import sys
from datetime import UTC, datetime

import msgspec

from queenmq.broker.http import Request, Response
from queenmq.config import Settings

access = logging.getLogger("queenmq.access")
slow = logging.getLogger("queenmq.slow")

_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def configure(settings: Settings) -> None:
    """Send this process's log where it belongs."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if settings.log_format == "json" else TextLines())
    logging.basicConfig(level=settings.log_level.upper(), handlers=[handler])


class JsonLines(logging.Formatter):
    """One JSON object per event."""

    def format(self, record: logging.LogRecord) -> str:
        """The event with its fields."""
        line: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return _encoded(line)


class TextLines(logging.Formatter):
    """Time, level, logger, the sentence, and the fields as name=value."""

    def format(self, record: logging.LogRecord) -> str:
        """The event with its fields; values are quoted as in JSON, so that a line stays a line."""
        fields = "".join(f" {name}={_encoded(value)}" for name, value in _fields(record).items())
        line = f"{_time(record)} {record.levelname:<7} {record.name}: {record.getMessage()}{fields}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class Journal:
    """Writes down requests: those that were slow, or all."""

    def __init__(self, settings: Settings) -> None:
        self._all = settings.access_log
        self._slow_seconds = settings.slow_call_ms / 1000 or float("inf")

    def note(self, request: Request, response: Response, seconds: float) -> None:
        """Write down a request that was answered, if it is worth it."""
        is_slow = seconds - request.parked_seconds > self._slow_seconds
        if not is_slow and not self._all:
            return
        fields: dict[str, object] = {
            "method": request.method,
            "path": request.path,
            "status": response.status,
            "ms": _milliseconds(seconds),
            "bytes": len(response.body),
        }
        if self._all:
            access.info("request", extra=fields)
        if is_slow:
            phases = {f"{name}_ms": _milliseconds(spent) for name, spent in request.phases.items()}
            slow.warning("slow request", extra={**fields, "query": request.query_string, **phases})


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 3)


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _OWN}


def _encoded(value: object) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode()
