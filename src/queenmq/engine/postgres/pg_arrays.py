"""Arrays as they travel to PostgreSQL: as one text each.

asyncpg looks at each element of an array to see whether it is an array too, which takes longer than all the rest.
"""

from collections.abc import Iterable, Sequence

import msgspec

from queenmq.model.lazily import Lazily

BIGINTS, BOOLEANS, INTS = "${}::text::bigint[]", "${}::text::boolean[]", "${}::text::int[]"
FLOATS, MOMENTS, UUIDS = "${}::text::float8[]", "${}::text::timestamptz[]", "${}::text::uuid[]"
LINES, NAMES, PLAIN = "string_to_array(${}, E'\\n', 'null')", "string_to_array(${}, E'\\n', E'\\x01')", "${}"

INCARNATION = "p_incarnation => ${}"
PUSH_ARGUMENTS = (BIGINTS, INTS, PLAIN, LINES, LINES, PLAIN, PLAIN, BIGINTS, PLAIN, PLAIN, LINES, INCARNATION)
ACK_ARGUMENTS = (BIGINTS, INTS, UUIDS, INTS, BIGINTS, BIGINTS, INTS, BIGINTS, PLAIN, PLAIN)
POP_NAMED = ("p_lookback => ${}", INCARNATION, "p_default_mode => ${}", "p_bytes_max => ${}")
POP_ARGUMENTS = (NAMES,) * 5 + (INTS, INTS, FLOATS, BOOLEANS, UUIDS, NAMES, MOMENTS, MOMENTS) + POP_NAMED

_encode = msgspec.json.encode
_lines = msgspec.json.Encoder().encode_lines
_texts = msgspec.json.Decoder(list[str | None])


def parameters(*kinds: str) -> str:
    """Where arguments of these kinds go in a statement, in order."""
    return ", ".join(kind.format(number) for number, kind in enumerate(kinds, 1))


def once(function: str, *kinds: str, now: str = "null") -> str:
    """A statement that calls a function once: the id of the call follows the arguments (queen.begin_call).

    `now`: the function's moment, where it does not take null for "read the clock".
    """
    begin = f"queen.begin_call(${len(kinds) + 1}, {now})"
    return f"select * from queen.{function}({parameters(*kinds)}, p_now => {begin})"  # noqa: S608 (ours)


def lines(values: Sequence[Sequence[object] | None]) -> str:
    """JSON arrays, or null where there is nothing to say, as lines of one text; no value has a line's end in it."""
    return _lines(values)[:-1].decode()


class Texts(Lazily[str | None]):
    """A JSON array of texts that stays one until somebody looks: many strings that live long make new ones slow."""

    def __init__(self, line: str, count: int) -> None:
        self._line = line
        self._count = count

    def __len__(self) -> int:
        return self._count

    def _make(self) -> Iterable[str | None]:
        return _texts.decode(self._line)


def names(values: Sequence[str | None]) -> str:
    """Names, or nothing, as lines of one text; no name has a control character in it."""
    return "\n".join(["\x01" if value is None else value for value in values])


def listed(values: Sequence[object]) -> str:
    """Numbers, booleans, UUIDs or moments, or nothing, as an array in the words of PostgreSQL."""
    return f"{{{_encode(values)[1:-1].decode()}}}"
