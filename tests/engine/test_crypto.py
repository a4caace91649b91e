"""Encryption at rest: who has a key reads, who has none is told so, and nothing is lost."""

import asyncio
import base64
import json

import pytest

from queenmq.engine.crypto import Cipher
from queenmq.errors import EncryptionRequired
from tests.engine.shorthand import HOUR_MS, ack, messages, parked, pop, push_silently, values

pytestmark = pytest.mark.every_postgres

OLD = "old:" + base64.b64encode(b"o" * 32).decode()
NEW = "new:" + base64.b64encode(b"n" * 32).decode()
SECRET = "the queen's secret"

KEYS = {"old": b"o" * 32, "new": b"n" * 32}


def test_what_is_hidden_is_a_json_string_and_never_the_same_twice():
    cipher = Cipher(KEYS)
    hidden = [cipher.encrypt(b'{"a":1}') for _ in range(2)]
    assert hidden[0] != hidden[1]
    assert all(json.loads(each).startswith("old:") for each in hidden)
    assert [cipher.decrypt(each) for each in hidden] == [b'{"a":1}'] * 2


def test_a_key_of_the_same_name_that_is_another_key_does_not_decrypt():
    hidden = Cipher({"k": b"o" * 32}).encrypt(b"1")
    with pytest.raises(EncryptionRequired, match="not the one"):
        Cipher({"k": b"n" * 32}).decrypt(hidden)


def test_a_message_cannot_be_passed_off_as_encrypted_with_another_key():
    hidden = Cipher({"a": b"o" * 32}).encrypt(b"1")
    with pytest.raises(EncryptionRequired):
        Cipher({"b": b"o" * 32}).decrypt(hidden.replace(b'"a:', b'"b:'))


@pytest.mark.parametrize("garbage", [b"1", b"null", b'"old"', b'"old:?"', b'"old:AAAA"', b'"x"', b'""'])
def test_what_we_did_not_encrypt_is_not_decrypted(garbage):
    with pytest.raises(EncryptionRequired):
        Cipher(KEYS).decrypt(garbage)


@pytest.fixture
async def keyed(open_engine):
    """An engine with a key, and an encrypted queue."""
    engine = await open_engine(encryption_keys=OLD)
    await engine.admin.configure_queue("secrets", encryption_enabled=True, retry_limit=0)
    return engine


async def stored(connection):
    return b"".join(row[0] for row in await connection.fetch("select payloads from queen.segments"))


# -- on a database


async def test_a_payload_is_unreadable_in_the_table_and_readable_to_consumers(keyed, open_engine, connection):
    await keyed.push(messages("secrets", SECRET, {"n": 1}))
    assert b"secret" not in await stored(connection)
    another = await open_engine(encryption_keys=OLD)
    assert values(await pop(another, "secrets", batch=2)) == [SECRET, {"n": 1}]
    listed = await keyed.admin.list_messages("secrets")
    assert [json.loads(each.payload) for each in listed] == [{"n": 1}, SECRET]
    assert all(each.encrypted for each in listed)


async def test_messages_by_id_and_by_offset_are_readable_too(keyed):
    [pushed] = await keyed.push(messages("secrets", SECRET))
    found = await keyed.admin.get_message(pushed.id)
    [read] = await keyed.admin.read_messages("secrets", "Default")
    assert json.loads(found.payload) == json.loads(read.payload) == SECRET


async def test_a_trace_is_readable_too(keyed):
    [first] = await keyed.push(messages("plain", 1))
    await keyed.push(messages("secrets", SECRET, trace_id=first.id))
    [step] = await keyed.admin.trace(first.id)
    assert json.loads(step.payload) == SECRET


async def test_without_the_key_a_listing_shows_what_is_stored(keyed, open_engine):
    await keyed.push(messages("secrets", SECRET))
    stranger = await open_engine()
    [message] = await stranger.admin.list_messages("secrets")
    assert json.loads(message.payload).startswith("old:")


async def test_dead_letters_stay_secret_and_can_be_redriven(keyed, connection):
    await keyed.push(messages("secrets", SECRET))
    await ack(keyed, await pop(keyed, "secrets"), "failed", "no")
    [letter] = await keyed.admin.list_dead_letters("secrets")
    assert json.loads(letter.payload) == SECRET
    assert b"secret" not in await connection.fetchval("select payload from queen.dead_letters")
    assert await keyed.admin.redrive_dead_letters(queue="secrets") == 1
    assert values(await pop(keyed, "secrets")) == [SECRET]


async def test_a_dead_letter_whose_message_is_gone_is_redriven_readable(keyed, open_engine):
    await keyed.push(messages("secrets", SECRET))
    await ack(keyed, await pop(keyed, "secrets"), "dlq")
    await keyed.admin.clear_queue("secrets")
    assert await keyed.admin.redrive_dead_letters(queue="secrets") == 1
    another = await open_engine(encryption_keys=OLD)
    assert values(await pop(another, "secrets")) == [SECRET]


async def test_a_new_key_in_front_encrypts_and_the_old_one_still_decrypts(keyed, open_engine, connection):
    await keyed.push(messages("secrets", "before"))
    rotated = await open_engine(encryption_keys=f"{NEW},{OLD}")
    await rotated.push(messages("secrets", "after"))
    assert values(await pop(rotated, "secrets", batch=2)) == ["before", "after"]
    texts = await connection.fetch("select payload #>> '{}' from queen.messages order by \"offset\"")
    assert [text.partition(":")[0] for (text,) in texts] == ["old", "new"]


async def test_without_a_key_the_push_is_refused_and_its_neighbours_are_not(keyed, open_engine):
    stranger = await open_engine(push_calls_max=1)
    answers = await asyncio.gather(
        stranger.push(messages("plain", 1)),
        stranger.push(messages("secrets", SECRET)),
        stranger.push(messages("plain", 2)),
        return_exceptions=True,
    )
    assert isinstance(answers[1], EncryptionRequired)
    assert [answer[0].offset for answer in (answers[0], answers[2])] == [0, 1]


async def test_encryption_that_somebody_else_turned_on_counts_at_once(open_engine, connection):
    engine, operator = await open_engine(encryption_keys=OLD), await open_engine()
    await engine.push(messages("secrets", "plain"))
    await operator.admin.configure_queue("secrets", encryption_enabled=True)
    await engine.push(messages("secrets", SECRET) + messages("other", 1))
    assert b"secret" not in await stored(connection)
    reader = await open_engine(encryption_keys=OLD)
    assert values(await pop(reader, "secrets", batch=2)) == ["plain", SECRET]


async def test_encryption_that_was_turned_on_counts_in_a_transaction_too(open_engine, connection):
    engine, operator = await open_engine(encryption_keys=OLD), await open_engine()
    await engine.push(messages("secrets", "plain"))
    await operator.admin.configure_queue("secrets", encryption_enabled=True)
    await engine.transaction(messages=messages("secrets", SECRET))
    assert b"secret" not in await stored(connection)
    stranger = await open_engine()
    with pytest.raises(EncryptionRequired):
        await stranger.transaction(messages=messages("secrets", SECRET))


async def test_whoever_lacks_the_key_is_told_and_the_message_goes_to_one_who_has_it(keyed, open_engine):
    await keyed.push(messages("secrets", SECRET))
    stranger = await open_engine()
    with pytest.raises(EncryptionRequired, match=r'key "old".*offsets 0 to 0 of partition "Default"'):
        await pop(stranger, "secrets")
    popped = await pop(keyed, "secrets")
    assert values(popped) == [SECRET]
    assert popped.messages[0].retry_count == 0


async def test_a_poll_with_the_key_gets_at_once_what_one_without_gave_back(keyed, open_engine, connection):
    idle = {"poll_interval_min_ms": HOUR_MS, "poll_interval_max_ms": HOUR_MS}
    [first] = await keyed.push(messages("secrets", 1))
    await ack(keyed, await pop(keyed, "secrets"))
    holder, stranger = await open_engine(encryption_keys=OLD, **idle), await open_engine(**idle)
    waiting = asyncio.create_task(pop(holder, "secrets", wait_seconds=60))
    await parked(holder)
    hidden = Cipher(KEYS).encrypt(json.dumps(SECRET).encode())
    await connection.execute(
        "select * from queen.push_segments(array[$1::bigint], array[1], array[$2::bytea], p_encrypted => '{true}')",
        first.partition_id,
        b"[" + hidden + b"]",
    )
    with pytest.raises(EncryptionRequired):
        await pop(stranger, "secrets")
    assert values(await waiting) == [SECRET]


async def test_one_who_lacks_the_key_does_not_spoil_the_pops_of_others(keyed, open_engine):
    await keyed.push(messages("secrets", SECRET) + messages("plain", 1, partition="a"))
    await keyed.push(messages("plain", 2, partition="b"))
    stranger = await open_engine()
    answers = await asyncio.gather(
        pop(stranger, "plain"), pop(stranger, "secrets"), pop(stranger, "plain"), return_exceptions=True
    )
    assert isinstance(answers[1], EncryptionRequired)
    assert sorted(values(answers[0]) + values(answers[2])) == [1, 2]


async def test_two_groups_at_different_places_of_a_partition_are_told_apart(keyed, open_engine, connection):
    await keyed.admin.configure_queue("mixed")
    [first] = await keyed.push(messages("mixed", "plain"))
    hidden = Cipher(KEYS).encrypt(b"1")
    await connection.execute(
        "select * from queen.push_segments(array[$1::bigint], array[1], array[$2::bytea], p_encrypted => '{true}')",
        first.partition_id,
        b"[" + hidden + b"]",
    )
    stranger = await open_engine()
    readable, unreadable = await asyncio.gather(
        pop(stranger, "mixed", group="one", batch=1),
        pop(stranger, "mixed", group="both", batch=2),
        return_exceptions=True,
    )
    assert values(readable) == ["plain"]
    assert isinstance(unreadable, EncryptionRequired)


async def test_a_message_called_encrypted_that_is_not_is_an_error_and_not_a_crash(keyed, connection):
    [first] = await keyed.push(messages("plain", 1))
    await push_silently(connection, first.partition_id, 2)
    await connection.execute("update queen.segments set encrypted = true where first_offset = 1")
    assert values(await pop(keyed, "plain", group="g")) == [1]
    with pytest.raises(EncryptionRequired):
        await pop(keyed, "plain", group="h", batch=2)
    [second, _] = await keyed.admin.list_messages("plain")
    assert json.loads(second.payload) == 2
