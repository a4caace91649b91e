"""JSON arrays are cut in the same places, however many at a time."""

import json
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queenmq.model.payloads import cut
from queenmq.spark import cutting

TEXTS = st.text(st.sampled_from('[]{},:"\\ aé\n'), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=4) | st.lists(VALUES, max_size=3)
COMPACT = st.booleans()
UNTIMED = settings(deadline=None)  # the first array that pyarrow makes takes as long as pandas takes to import


def array(values: list[object], *, compact: bool, ascii_only: bool = True) -> bytes:
    separators = (",", ":") if compact else (", ", ": ")
    return b"[%b]" % b",".join(
        json.dumps(value, separators=separators, ensure_ascii=ascii_only).encode() for value in values
    )


def elements(arrays: list[bytes], counts: list[int]) -> list[bytes]:
    found: list[bytes] = cutting.elements(arrays, np.array(counts)).to_pylist()
    return found


@UNTIMED
@given(st.lists(st.lists(OBJECTS, min_size=1, max_size=5), min_size=1, max_size=5), COMPACT, st.booleans())
def test_objects_and_arrays_are_cut_where_a_parser_cuts_them(segments, compact, ascii_only):
    arrays = [array(values, compact=compact, ascii_only=ascii_only) for values in segments]
    assert elements(arrays, list(map(len, segments))) == [bytes(each) for each in chain.from_iterable(map(cut, arrays))]


@UNTIMED
@given(st.lists(st.lists(VALUES, min_size=1, max_size=5), min_size=1, max_size=5), COMPACT)
def test_whatever_is_in_them_is_cut_where_a_parser_cuts_it(segments, compact):
    arrays = [array(values, compact=compact) for values in segments]
    assert elements(arrays, list(map(len, segments))) == [bytes(each) for each in chain.from_iterable(map(cut, arrays))]


@pytest.mark.parametrize(
    "pieces",
    [
        [b"1", b'{"a":[{},{}]}'],  # as many },{ as there are commas between messages, and in another place
        [b"[{},{}]", b"1"],
        [b"{}", b"1", b'{"a":"}","b":[{},{},{"z":"{"}]}'],
        [b'"},{"', b"{}"],
        [b'{"a":"\\"},{"}', b"{}"],
        [b'{"a":"\\\\"}', b'{"b":"},{"}'],
        [b"{}"],
        [b'{"a":"' + b"x" * 200 + b'"}', b"{}"] * 50,
    ],
)
def test_what_looks_like_the_end_of_a_message_is_not_taken_for_one(pieces):
    assert elements([b"[%b]" % b",".join(pieces)] * 3, [len(pieces)] * 3) == pieces * 3


def test_objects_are_cut_all_at_once(monkeypatch):
    monkeypatch.setattr(cutting, "cut", None)
    pieces = [json.dumps({"n": n, "items": [{"a": "},{"}, {"b": ['"', n]}]}).encode() for n in range(1_000)]
    assert elements([b"[%b]" % b",".join(pieces)] * 2, [1_000] * 2) == pieces * 2


def test_texts_larger_than_a_block_are_cut_too(monkeypatch):
    monkeypatch.setattr(cutting, "BLOCK_BYTES", 64)
    monkeypatch.setattr(cutting, "cut", None)
    pieces = [b'{"a": "%b"}' % (b"x" * n) for n in range(200)]
    assert elements([b"[%b]" % b",".join(pieces)], [200]) == pieces
