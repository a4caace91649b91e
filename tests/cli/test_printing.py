"""How values are printed."""

import pytest

from queenmq.cli.printing import printable, seconds_text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.0 s"), (59.94, "59.9 s"), (60, "1 min 0 s"), (3_599, "59 min 59 s"), (3_600, "1 h 0 min"),
     (86_399, "23 h 59 min"), (86_400, "1 d 0 h"), (200_000, "2 d 7 h")],
)  # fmt: skip
def test_a_length_of_time_has_its_two_largest_units(seconds, text):
    assert seconds_text(seconds) == text


def test_control_characters_are_named():
    assert printable("a\x1b[2J\r\nü\u202e") == "a\\x1b[2J\\r\\nü\\u202e"
