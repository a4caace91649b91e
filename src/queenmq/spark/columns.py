"""The columns of a message in Spark, and how a payload may look there."""

from collections.abc import Sequence

from queenmq.errors import InvalidArgument
from queenmq.spark.nearest import nearest

COLUMNS = {
    "queue": "string",
    "partition": "string",
    "partition_id": "bigint",
    "offset": "bigint",
    "message_id": "string",
    "transaction_id": "string",
    "trace_id": "string",
    "created_at": "timestamp",
    "producer": "string",
    "headers": "map<string,string>",
    "payload": "string",
}
# Every message has these. Where Spark knows that, it does not ask each of them.
ALWAYS = {"queue", "partition", "partition_id", "offset", "message_id", "transaction_id", "created_at", "payload"}
DEAD_LETTER_COLUMNS = {
    "group": "string",
    "error": "string",
    "retry_count": "int",
    "failed_at": "timestamp",
}
ERROR_COLUMN = "payload_error"  # why a payload did not fit the schema that was asked for
ALL = (*COLUMNS, ERROR_COLUMN, *DEAD_LETTER_COLUMNS)

PAYLOAD_TYPES = {"json": "string", "binary": "binary", "variant": "variant"}


def table(
    payload_format: str, columns: Sequence[str] = (), *, dead_letters: bool = False, undecryptable: bool = False
) -> str:
    """The schema of a read as DDL: all columns, or those that were asked for.

    payload_format is json, binary, variant, or itself the DDL of the payload's fields. A payload that does not fit the
    fields is null, and so is one that cannot be decrypted, if that is no error. A dead letter may be of a partition
    that is gone.
    """
    found = dict(COLUMNS)
    if payload_format in PAYLOAD_TYPES:
        found["payload"] = PAYLOAD_TYPES[payload_format]
    else:
        found["payload"] = f"struct<{payload_format}>"
        found[ERROR_COLUMN] = "string"
    may_be_null = ({"payload"} if undecryptable or ERROR_COLUMN in found else set()) | (
        {"partition"} if dead_letters else set()
    )
    for name in ALWAYS - may_be_null:
        found[name] += " not null"
    if dead_letters:
        found |= DEAD_LETTER_COLUMNS
    check(columns, found)
    return ", ".join(f"`{name}` {found[name]}" for name in columns or found)


def check(names: Sequence[str], known: Sequence[str] | dict[str, str]) -> None:
    """Refuse a column that does not exist, with the name that was probably meant."""
    for name in names:
        if name not in known:
            raise InvalidArgument(f'there is no column "{name}"{nearest(name, known)}; columns: {", ".join(known)}')
