"""Records as tables of Arrow and pandas; both are imported when they are needed."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from queenmq.client.answers import Record


def pyarrow() -> Any:
    """The module, or an ImportError that says what to install."""
    return _module("pyarrow")


def pandas() -> Any:
    """The module, or an ImportError that says what to install."""
    return _module("pandas")


def arrow(records: Sequence[Record]) -> Any:
    """An Arrow table with one row per record."""
    pa = pyarrow()
    columns = {
        "queue": pa.array([each.queue for each in records], pa.string()),
        "partition": pa.array([each.partition for each in records], pa.string()),
        "offset": pa.array([each.offset for each in records], pa.int64()),
        "transaction_id": pa.array([each.transaction_id for each in records], pa.string()),
        "created_at": pa.array([each.created_at for each in records], pa.timestamp("us", "UTC")),
        "headers": pa.array([list(each.headers.items()) for each in records], pa.map_(pa.string(), pa.string())),
        "payload": pa.array([each.json.decode() for each in records], pa.string()),
    }
    return pa.table(columns)


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f"tables need {name}: pip install 'queenmq[arrow]'", name=name) from error
