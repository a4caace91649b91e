"""The fields of a payload as an option has them, `customer string, total double`: checked before Spark reads them.

Spark sees them inside the schema of the whole table, and its error shows that instead of the mistake. What this
accepts, Spark may still refuse; what Spark accepts, this must not.
"""

import re
from collections.abc import Callable

from queenmq.errors import InvalidArgument
from queenmq.spark.nearest import nearest

TYPES = (
    "array", "bigint", "binary", "boolean", "byte", "char", "character", "date", "dec", "decimal", "double", "float",
    "int", "integer", "interval", "long", "map", "numeric", "real", "short", "smallint", "string", "struct", "time",
    "timestamp", "timestamp_ltz", "timestamp_ntz", "tinyint", "varchar", "variant", "void",
)  # fmt: skip
INNER_TYPES = {"array": 1, "map": 2}
SIGNS = set("<>(),:")

_TOKEN = re.compile(r"\s*(`(?:[^`]|``)+`|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\w+|[<>(),:]|\S)")


def check_fields(text: str) -> None:
    """Refuse fields that Spark cannot read, with the one that is wrong."""
    _Reader(_TOKEN.findall(text)).check()


class _Reader:
    """Goes through the words and signs of some fields, from left to right."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = [*tokens, ""]  # the last one: the end
        self._at = 0

    def check(self) -> None:
        self._fields()
        if self._next:
            raise InvalidArgument(f'payloadFormat: "{self._next}" closes nothing')

    @property
    def _next(self) -> str:
        return self._tokens[self._at]

    def _take(self, *wanted: str) -> bool:
        """Go on if these words or signs come next."""
        found = [each.lower() for each in self._tokens[self._at : self._at + len(wanted)]] == list(wanted)
        self._at += len(wanted) * found
        return found

    def _fields(self) -> None:
        """Fields, up to the end or to what closes them."""
        names: set[str] = set()
        while True:
            name = self._name()
            if name in names:
                raise InvalidArgument(f'payloadFormat gives the field "{name}" twice')
            names.add(name)
            self._take(":")
            self._type(name)
            self._take("not", "null")
            if self._take("comment"):
                self._at += bool(self._next)
            if not self._take(","):
                break
        if self._next not in ("", ">"):
            raise InvalidArgument(
                f'payloadFormat: "{self._next}" is not expected after the field "{name}"; fields have commas between '
                f"them, and a name with other characters than letters, digits and _ is written in backticks: `{name}`"
            )

    def _name(self) -> str:
        name = self._next
        if not name or not (name[0] == "`" or name.isidentifier() or name[0].isdigit()):
            raise InvalidArgument(f"payloadFormat: a field is expected where there is {_shown(name)}")
        self._at += 1
        return name.strip("`")

    def _type(self, field: str) -> None:
        """A type, with what belongs to it."""
        kind = self._next.lower()
        if not kind or kind in SIGNS:
            raise InvalidArgument(f'payloadFormat: the field "{field}" has no type')
        if kind not in TYPES:
            raise InvalidArgument(
                f'payloadFormat: the field "{field}" cannot be a "{self._next}"{nearest(kind, TYPES)}'
            )
        self._at += 1
        if kind == "struct":
            self._inside(field, lambda: None if self._next == ">" else self._fields())
        elif kind in INNER_TYPES:
            self._inside(field, lambda: self._types(field, INNER_TYPES[kind]))
        elif self._take("("):
            while self._next and not self._take(")"):
                self._at += 1
        self._attributes(kind)

    def _types(self, field: str, count: int) -> None:
        for number in range(count):
            if number and not self._take(","):
                raise InvalidArgument(f'payloadFormat: a map of the field "{field}" needs two types: map<string,int>')
            self._type(field)

    def _inside(self, field: str, read: Callable[[], None]) -> None:
        """What stands in angle brackets."""
        if not self._take("<"):
            raise InvalidArgument(
                f'payloadFormat: the field "{field}" does not say what is in it, such as array<int>, map<string,int> '
                f"or struct<n int>"
            )
        read()
        if not self._take(">"):
            raise InvalidArgument(f'payloadFormat: a ">" is missing in the type of the field "{field}"')

    def _attributes(self, kind: str) -> None:
        """The words that may follow a type: `string collate unicode`, `interval day to second`."""
        if kind == "string" and self._take("collate"):
            self._at += bool(self._next)
        elif kind == "interval":
            self._at += self._next.isidentifier()
            if self._take("to"):
                self._at += self._next.isidentifier()
        elif kind == "double":
            self._take("precision")
        elif kind in ("time", "timestamp"):
            for words in (("without",), ("with",), ("with", "local")):
                self._take(*words, "time", "zone")


def _shown(token: str) -> str:
    return f'"{token}"' if token else "nothing"
