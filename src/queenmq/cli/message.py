"""A message as commands print it: a line for people, or a line of JSON."""

from datetime import datetime
from typing import Protocol

from msgspec import Raw

from queenmq.cli.printing import moment_text, print_json, printable

SHOWN = ("queue", "partition", "offset", "id", "transaction_id", "trace_id", "created_at", "retry_count", "lease_id")


class Printed(Protocol):
    """What there is to print: popped, or read."""

    @property
    def partition(self) -> str:
        """Where it is."""

    @property
    def offset(self) -> int:
        """Where it is in its partition."""

    @property
    def created_at(self) -> datetime:
        """When it was stored."""

    @property
    def json(self) -> bytes:
        """The payload."""


def print_message(message: Printed, *, json: bool) -> None:
    """One message, on one line."""
    if json:
        known = {name: getattr(message, name) for name in SHOWN if hasattr(message, name)}
        print_json({**known, "payload": Raw(message.json)})
    else:
        told = f"{moment_text(message.created_at)}  {message.partition} {message.offset}  "
        print(printable(told + message.json.decode()))
