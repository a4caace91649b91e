"""Stored messages."""

from typing import cast

from msgspec import Raw

from queenmq import model
from queenmq.api import messages
from queenmq.service.host import Host
from queenmq.service.ids import id_text, partition_number

LEASED: dict[str | None, messages.MessageStatus] = {"leased": "processing", None: "pending"}


async def list_messages(host: Host, call: messages.ListMessages) -> messages.MessagePage:
    """Call queen.list_messages."""
    found = await host.engine.admin.list_messages(
        call.queue,
        partition=call.partition,
        group=call.group,
        status="leased" if call.status == "processing" else call.status,
        cursor=call.cursor,
        limit=call.limit,
        namespace=call.namespace,
        task=call.task,
    )
    cursor = found[-1].cursor if len(found) == call.limit or (found and found[-1].more) else None
    return messages.MessagePage(messages=[_message(each) for each in found], cursor=cursor)


async def get_message(host: Host, call: messages.GetMessage) -> messages.StoredMessage:
    """Call queen.find_message."""
    partition_id = partition_number(call.partition_id)
    return _message(await host.engine.admin.find_message(partition_id, call.transaction_id, call.group))


async def delete_message(host: Host, call: messages.DeleteMessage) -> messages.MessageDeleted:
    """Call queen.delete_message."""
    partition_id = partition_number(call.partition_id)
    groups, dead_letters = await host.engine.admin.delete_message(partition_id, call.transaction_id)
    return messages.MessageDeleted(
        success=True,
        partition_id=call.partition_id,
        transaction_id=call.transaction_id,
        groups=groups,
        dead_letters=dead_letters,
    )


async def retry_message(host: Host, call: messages.RetryMessage) -> messages.MessageRetried:
    """Call queen.retry_message."""
    partition_id = partition_number(call.partition_id)
    groups = await host.engine.admin.retry_message(partition_id, call.transaction_id, call.group)
    return messages.MessageRetried(
        success=True, partition_id=call.partition_id, transaction_id=call.transaction_id, groups=groups
    )


async def give_up_message(host: Host, call: messages.GiveUpMessage) -> messages.MessageDeadLettered:
    """Call queen.dead_letter_message."""
    partition_id = partition_number(call.partition_id)
    await host.engine.admin.dead_letter_message(partition_id, call.transaction_id, call.group, call.error)
    return messages.MessageDeadLettered(
        success=True, partition_id=call.partition_id, transaction_id=call.transaction_id, group=call.group
    )


def _message(found: model.StoredMessage) -> messages.StoredMessage:
    return messages.StoredMessage(
        id=str(found.message_id),
        transaction_id=found.transaction_id,
        queue=found.queue,
        partition=found.partition,
        partition_id=id_text(found.partition_id),
        offset=found.offset,
        trace_id=None if found.trace_id is None else str(found.trace_id),
        raw=Raw(found.payload),
        status=LEASED.get(found.status) or cast("messages.MessageStatus", found.status),
        encrypted=found.encrypted,
        created_at=found.created_at,
        producer=found.producer,
        headers=found.headers,
    )
