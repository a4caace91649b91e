"""The texts of delivered messages: what is documented, and no more of them kept than there is room for."""

from datetime import UTC, datetime
from uuid import uuid4

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from queenmq.broker.delivered import RunTexts
from queenmq.broker.routes.pop import PoppedMessage
from queenmq.engine.pop.popper import Run
from queenmq.engine.segments import Segment
from queenmq.model import Lease, message_text, message_texts

NOW = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)


def run(partition_id, payloads, ids=None, retries=None):
    lease = Lease(uuid4(), "g", 1, "q", "p", partition_id, NOW)
    array = msgspec.json.encode(payloads)
    segment = Segment(partition_id, 7, len(payloads), NOW, array, ids, None, None, None)
    places = range(len(payloads))
    return Run(lease, segment, places, range(7, segment.end), retries or [0] * len(payloads))


def messages(text):
    return msgspec.json.decode(b"[" + text + b"]", type=list[PoppedMessage])


json = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(st.lists(st.tuples(json, st.none() | st.text(min_size=1), st.integers(0, 2)), min_size=1, max_size=5))
def test_whatever_is_delivered_reads_as_it_is_documented(delivered):
    payloads, ids, retries = map(list, zip(*delivered, strict=True))
    given_ = run(3, payloads, ids, retries)
    told = RunTexts().told("now", given_, "the lease")
    read = messages(told.text)
    assert [msgspec.json.decode(message.data) for message in read] == payloads
    assert [message.retry_count for message in read] == retries
    assert [message.transaction_id for message in read] == list(told.names)
    assert [message.offset for message in read] == list(given_.offsets)
    for message, name in zip(read, ids, strict=True):
        assert message.id == message_text(NOW, 3, message.offset)
        assert message.transaction_id == name or (name is None and message.transaction_id == message.id)
        assert (message.lease_id, message.consumer_group, message.created_at) == ("the lease", "g", NOW)


def test_old_texts_make_room():
    texts = RunTexts(bytes_max=1_000)
    for partition in range(1, 20):
        assert len(messages(texts.told("now", run(partition, ["x" * 100]), "lease").text)) == 1
        assert 0 < texts.bytes <= 1_000
    assert len(messages(texts.told("now", run(50, ["x" * 2_000]), "lease").text)) == 1
    assert texts.bytes == 0


@given(st.integers(0, (1 << 40) - 10), st.lists(st.integers(1, 3_000), min_size=1, max_size=5))
def test_ids_by_the_run_are_those_of_each_message(first, steps):
    offsets = [first := first + step for step in steps]
    assert message_texts(NOW, 3, offsets) == [message_text(NOW, 3, offset) for offset in offsets]
