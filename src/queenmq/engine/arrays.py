"""Arrays as they travel to PostgreSQL: as one text each.

asyncpg looks at each element of an array to see whether it is an array too, which takes longer than all the rest.
"""

from collections.abc import Sequence

import msgspec

BIGINTS, INTS, LINES, PLAIN = "${}::text::bigint[]", "${}::text::int[]", "string_to_array(${}, E'\\n', 'null')", "${}"
PUSH_ARGUMENTS = (BIGINTS, INTS, PLAIN, LINES, LINES, PLAIN, PLAIN, BIGINTS, PLAIN, PLAIN, LINES)

_lines = msgspec.json.Encoder().encode_lines


def parameters(first: int) -> str:
    """Where the arguments of a push go in a statement, from this number on."""
    return ", ".join(kind.format(number) for number, kind in enumerate(PUSH_ARGUMENTS, first))


def lines(values: Sequence[Sequence[object] | None]) -> str:
    """JSON arrays, or null where there is nothing to say, as lines of one text; no value has a line's end in it."""
    return _lines(values)[:-1].decode()


def numbers(values: Sequence[int | None]) -> str:
    """An array of numbers, as text."""
    return f"{{{msgspec.json.encode(values)[1:-1].decode()}}}"
