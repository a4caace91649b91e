"""The options of `format("queen")`: read once, checked, with the nearest name for one that does not exist."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Annotated, Any, Self
from uuid import UUID

import msgspec
from msgspec import Meta, Struct

from queenmq.config import Settings
from queenmq.engine.postgres.embedded.local import session_dsn
from queenmq.errors import InvalidArgument, InvalidTimestamp
from queenmq.spark.columns import PAYLOAD_TYPES
from queenmq.spark.ddl import check_fields
from queenmq.spark.nearest import nearest

READ = {
    "url", "readUrl", "queue", "partitions", "columns", "payloadFormat", "mode", "minPartitions", "failOnDataLoss",
    "startingOffsets", "startingTimestamp",
}  # fmt: skip
BATCH = READ | {"endingOffsets", "endingTimestamp", "includeDeadLetters", "pushFilters", "undecryptable"}
STREAM = READ | {"group", "maxOffsetsPerTrigger"}
WRITE = {"url", "queue", "partitionColumn", "transactionIdColumn", "traceIdColumn", "writeId"}
STREAM_WRITE = WRITE - {"writeId"} | {"failOnDataLoss"}
SPARKS_OWN = {"checkpointlocation", "path"}  # handed on to every source and sink


class TickOption(Struct, forbid_unknown_fields=True):
    """A tick as an option names it."""

    tick: Annotated[int, Meta(ge=0)]
    mark: UUID | None = None
    trail: list[tuple[int, str, int]] = []


MODES = ("permissive", "failfast")
UNDECRYPTABLE = ("error", "null")


@dataclass(frozen=True)
class Options:
    """What was asked for. The address of PostgreSQL is never shown."""

    queue: str = ""
    url: str | None = field(default=None, repr=False)
    read_url: str | None = field(default=None, repr=False)
    group: str | None = None
    partitions: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    payload_format: str = "json"
    mode: str = "permissive"
    min_partitions: int | None = None
    fail_on_data_loss: bool = True
    include_dead_letters: bool = False
    undecryptable: str = "error"
    push_filters: bool = False
    starting_offsets: Any = "earliest"
    ending_offsets: Any = "latest"
    starting_timestamp: datetime | None = None
    ending_timestamp: datetime | None = None
    max_offsets_per_trigger: int | None = None
    partition_column: str | None = None
    transaction_id_column: str | None = None
    trace_id_column: str | None = None
    write_id: str | None = None

    @classmethod
    def of(cls, given: Mapping[str, str], known: Iterable[str], purpose: str) -> Self:
        """Read the options of one purpose, such as a stream's; Spark has folded their case."""
        names = {name.lower(): name for name in known}
        values: dict[str, Any] = {}
        for name, text in given.items():
            if name.lower() in SPARKS_OWN:
                continue
            if name.lower() not in names:
                elsewhere = {each.lower(): each for each in BATCH | STREAM | WRITE}.get(name.lower())
                hint = nearest(name, names.values()) if elsewhere is None else ""
                raise InvalidArgument(f'{purpose} has no option "{elsewhere or name}"{hint}')
            own = names[name.lower()]
            values[_field(own)] = _READERS.get(own, _text)(own, text)
        if not values.get("queue"):
            raise InvalidArgument(f'{purpose} needs the option "queue"')
        if "starting_offsets" in values and "starting_timestamp" in values:
            raise InvalidArgument("give startingOffsets or startingTimestamp, not both")
        return cls(**values)

    def dsn(self, *, reading: bool) -> str:
        """Where PostgreSQL is: readUrl, url, QUEEN_SESSION_DSN, QUEEN_DSN, or the private one of a local server."""
        return (self.read_url if reading else None) or self.url or session_dsn(Settings.load())


def _field(option: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in option)


def _text(option: str, text: str) -> str:
    if not text.strip():
        raise InvalidArgument(f"{option} is empty")
    return text.strip()


def _names(option: str, text: str) -> tuple[str, ...]:
    """`a,b`, or a JSON list where names have commas."""
    found = _json(option, text) if text.strip().startswith("[") else text.split(",")
    names = tuple(each.strip() for each in found if isinstance(each, str) and each.strip())
    if len(names) != len(found):
        raise InvalidArgument(f"{option} is a list of names: a,b or a JSON list")
    return names


def _number(option: str, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise InvalidArgument(f"{option} is a number from 1 on, not {text!r}")
    return number


def _flag(option: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise InvalidArgument(f"{option} is true or false, not {text!r}")
    return text.lower() == "true"


def _mode(option: str, text: str) -> str:
    if text.lower() not in MODES:
        raise InvalidArgument(f"{option} is {' or '.join(MODES)}, not {text!r}")
    return text.lower()


def _undecryptable(option: str, text: str) -> str:
    if text.lower() not in UNDECRYPTABLE:
        raise InvalidArgument(f"{option} is {' or '.join(UNDECRYPTABLE)}, not {text!r}")
    return text.lower()


def _payload_format(option: str, text: str) -> str:
    """One of three words, or the DDL of the payload's fields."""
    word = _text(option, text)
    if not word.isidentifier():
        check_fields(word)
    elif word.lower() in PAYLOAD_TYPES:
        return word.lower()
    else:
        raise InvalidArgument(
            f'{option} is {", ".join(PAYLOAD_TYPES)} or the fields of a payload, such as "customer string, total '
            f'double"; not "{word}"{nearest(word, PAYLOAD_TYPES)}'
        )
    return word


def _moment(option: str, text: str) -> datetime:
    """RFC 3339 with a time zone, or milliseconds since 1970 as Kafka's source takes them."""
    try:
        if text.strip().isdigit():
            return datetime.fromtimestamp(int(text) / 1000, UTC)
        moment = datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError, OSError):
        raise InvalidTimestamp(f"{option} is not a time: {text!r}") from None
    if moment.tzinfo is None:
        raise InvalidTimestamp(f"{option} has no time zone: {text!r}")
    return moment


def _offsets(option: str, text: str) -> Any:
    """earliest, latest, {"tick": n, "mark": …}, {"partition": offset} or {"queue": {"partition": offset}}."""
    if text.strip() in ("earliest", "latest"):
        return text.strip()
    found = _json(option, text)
    if is_tick(found):
        return found
    if isinstance(found, dict) and found:
        inner = [each for value in found.values() for each in (value.values() if isinstance(value, dict) else [value])]
        nested = {isinstance(value, dict) for value in found.values()}
        if len(nested) == 1 and all(type(each) is int and each >= 0 for each in inner):
            return found
    raise InvalidArgument(
        f'{option} is earliest, latest, {{"tick": 7}}, {{"tick": 7, "mark": "…"}}, {{"partition": 12}} or '
        f'{{"queue": {{"partition": 12}}}}'
    )


def is_tick(found: Any) -> bool:
    """Whether an option names a tick: its number, and perhaps what proves that it is still the same one."""
    try:
        msgspec.convert(found, TickOption, strict=True)
    except msgspec.ValidationError:
        return False
    return True


def _json(option: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise InvalidArgument(f"{option} is not JSON: {text!r}") from None


_READERS = {
    "partitions": _names,
    "columns": _names,
    "mode": _mode,
    "payloadFormat": _payload_format,
    "undecryptable": _undecryptable,
    "minPartitions": _number,
    "maxOffsetsPerTrigger": _number,
    "failOnDataLoss": _flag,
    "includeDeadLetters": _flag,
    "pushFilters": _flag,
    "startingOffsets": _offsets,
    "endingOffsets": _offsets,
    "startingTimestamp": _moment,
    "endingTimestamp": _moment,
}
assert {_field(option) for option in BATCH | STREAM | WRITE} == {each.name for each in fields(Options)}
