"""The error tree: every class says what happened, what to do, and how it travels."""

import pickle
import re

import pytest

from queenmq import errors
from queenmq.engine.postgres.sqlstates import from_sqlstate
from queenmq.errors import QueenError, Refused, Unavailable

CLASSES = sorted(errors.BY_CODE.values(), key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_error_carries_code_status_hint_and_message(kind):
    assert re.fullmatch(r"[A-Z]+(_[A-Z]+)*", kind.code)
    assert kind.sqlstate is None or re.fullmatch(r"QN\d{3}", kind.sqlstate)
    assert kind.http_status in range(400, 600)
    assert kind.hint is None or kind.hint.endswith(".")
    assert str(kind()) == kind.__doc__


EMPTY_WORDS = ("documentation", "Compare the", "Change the request")


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_a_hint_names_something_to_do_or_is_left_out(kind):
    assert not [words for words in EMPTY_WORDS if words in (kind.hint or "")]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_error_is_drawn_in_the_tree_with_its_codes(kind):
    line = next(line for line in errors.__doc__.splitlines() if kind.__name__ in line.split())
    if kind.sqlstate is not None:
        assert kind.sqlstate in line
        assert str(kind.http_status) in line


def test_codes_and_sqlstates_are_unique():
    subclasses, found = [QueenError], []
    while subclasses:
        found.append(subclasses.pop())
        subclasses += found[-1].__subclasses__()
    found = [kind for kind in found if kind.__module__ == errors.__name__]  # others answer with their parent's code
    assert len(errors.BY_CODE) == len(found)
    assert len(errors.BY_SQLSTATE) == sum(kind.sqlstate is not None for kind in found)


@pytest.mark.parametrize(("sqlstate", "kind"), errors.BY_SQLSTATE.items())
def test_a_sqlstate_of_ours_becomes_its_class(sqlstate, kind):
    error = from_sqlstate(sqlstate, "said by the function", "a detail")
    assert type(error) is kind
    assert isinstance(error, Refused | errors.HistoryChanged)
    assert (str(error), error.detail) == ("said by the function", "a detail")


@pytest.mark.parametrize(
    ("sqlstate", "kind"),
    [
        ("08006", errors.DatabaseUnavailable),
        ("53300", errors.DatabaseUnavailable),
        ("57P01", errors.DatabaseUnavailable),
        ("57P03", errors.DatabaseUnavailable),
        ("25006", errors.DatabaseUnavailable),
        ("3D000", errors.DatabaseUnavailable),
        ("3F000", errors.DatabaseUnavailable),
        ("42883", errors.DatabaseUnavailable),
        ("57014", errors.TimedOut),
        ("55P03", errors.TimedOut),
        ("40P01", errors.Busy),
    ],
)
def test_what_postgres_may_recover_from_is_worth_another_try(sqlstate, kind):
    error = from_sqlstate(sqlstate, "gone")
    assert type(error) is kind
    assert isinstance(error, Unavailable)
    assert error.retryable
    assert error.http_status == 503


@pytest.mark.parametrize("sqlstate", ["23505", "42601", "XX000"])
def test_other_conditions_have_no_word_of_ours(sqlstate):
    assert from_sqlstate(sqlstate, "message") is None


def test_a_full_queue_tells_its_facts():
    error = from_sqlstate("QN429", "full", '{"queue": "orders", "depth": 12, "limit": 10}')
    assert isinstance(error, errors.QueueFull)
    assert (error.queue, error.depth, error.limit) == ("orders", 12, 10)


@pytest.mark.parametrize("detail", [None, "", "no json", "[1]", '{"depth": "many"}'])
def test_a_full_queue_without_facts_is_still_a_full_queue(detail):
    error = errors.QueueFull(detail=detail)
    assert (error.queue, error.depth, error.limit) == (None, None, None)


def test_errors_cross_process_boundaries():
    error = errors.QueueFull("full", detail='{"depth": 3}')
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.depth) == (errors.QueueFull, "full", 3)
