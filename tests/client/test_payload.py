"""Payloads: any JSON value goes in and comes out; structs, dataclasses and pydantic models too."""

import enum
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queenmq.api.payload import decode, reader
from queenmq.client import payload
from queenmq.errors import InvalidPayload

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
)


class Struct(msgspec.Struct):
    id: int


@dataclass
class Data:
    id: int


class Model(pydantic.BaseModel):
    id: int


@given(JSON)
def test_every_json_value_comes_out_as_it_went_in(value):
    assert decode(msgspec.Raw(payload.encode(value))) == value


@given(st.lists(JSON))
def test_payloads_together_are_what_they_are_one_by_one(values):
    one_by_one = [decode(msgspec.Raw(payload.encode(value))) for value in values]
    assert decode(msgspec.Raw(payload.encode_array(values))) == one_by_one
    plain = payload.encode_plain(values)
    assert plain is None or decode(msgspec.Raw(plain)) == one_by_one


class Text(str):
    __slots__ = ()


class Level(enum.Enum):
    LOW = "low"


@pytest.mark.parametrize(
    "value",
    [
        msgspec.Raw(b"{oops"), Struct(7), Data(7), Model(id=7), Text("x"), datetime(2025, 1, 31, 12, tzinfo=UTC),
        1 << 64, {1: 2}, {2}, b"x", Decimal(1), "\ud800", object(),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_may_be_more_than_a_plain_value_is_not_encoded_as_one(value):
    assert payload.encode_plain([1, {"a": [value]}]) is None


@pytest.mark.parametrize("value", [float("nan"), float("inf"), UUID(int=7), Level.LOW, (1, 2), -0.0, (1 << 64) - 1])
def test_plain_values_are_written_as_all_others_are(value):
    assert payload.encode_plain([value]) == payload.encode([value])


@pytest.mark.parametrize("kind", [Struct, Data, Model])
def test_an_object_comes_out_as_it_went_in(kind):
    encoded = msgspec.Raw(payload.encode([kind(id=7)]))
    assert decode(encoded) == [{"id": 7}]
    assert reader(list[Struct])(encoded) == [Struct(7)]
    assert reader(kind)(msgspec.Raw(payload.encode(kind(id=7)))) == kind(id=7)


@pytest.mark.parametrize("kind", [Struct, Data, Model])
def test_what_does_not_fit_is_refused(kind):
    with pytest.raises(InvalidPayload, match=kind.__name__):
        reader(kind)(msgspec.Raw(b'{"id": "seven"}'))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (datetime(2025, 1, 31, 12, tzinfo=UTC), b'"2025-01-31T12:00:00Z"'),
        (UUID(int=7), b'"00000000-0000-0000-0000-000000000007"'),
        (Decimal("1.10"), b'"1.10"'),
        ((1, {2}), b"[1,[2]]"),
        (msgspec.Raw(b'{"ready": 1}'), b'{"ready": 1}'),
    ],
)
def test_what_json_does_not_know_is_written_as_text(value, text):
    assert payload.encode(value) == text


@pytest.mark.parametrize("value", [object(), {"deep": [object()]}, {1.5: object}, "\ud800"])
def test_what_has_no_json_form_is_refused(value):
    with pytest.raises(InvalidPayload):
        payload.encode(value)
