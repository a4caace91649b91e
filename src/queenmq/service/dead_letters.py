"""Dead letters."""

from collections.abc import Sequence

from msgspec import Raw

from queenmq import model
from queenmq.api import dead_letters
from queenmq.errors import InvalidArgument, TooManyItems
from queenmq.service.host import Host
from queenmq.service.ids import id_text, uuid


async def list_dead_letters(host: Host, call: dead_letters.ListDeadLetters) -> dead_letters.DeadLetterPage:
    """Call queen.count_dead_letters and queen.list_dead_letters."""
    admin = host.engine.admin
    total = await admin.count_dead_letters(
        call.queue, group=call.group, partition=call.partition, since=call.since, until=call.until
    )
    found = await admin.list_dead_letters(
        call.queue,
        group=call.group,
        partition=call.partition,
        since=call.since,
        until=call.until,
        limit=call.limit,
        skip=call.skip,
    )
    more = call.skip + len(found) < total
    return dead_letters.DeadLetterPage(
        dead_letters=[_dead_letter(each) for each in found],
        total=total,
        pagination=dead_letters.Pagination(limit=call.limit, skip=call.skip, total=total, more=more),
    )


async def redrive(host: Host, call: dead_letters.Redrive) -> dead_letters.Redriven:
    """Call queen.redrive_dead_letters."""
    if call.ids is None and call.queue is None and call.group is None:
        raise InvalidArgument("say which dead letters to deliver again: ids, a queue or a consumerGroup")
    count = await host.engine.admin.redrive_dead_letters(
        _ids(call.ids), queue=call.queue, group=call.group, limit=call.limit
    )
    return dead_letters.Redriven(count)


async def purge(host: Host, call: dead_letters.Purge) -> dead_letters.Purged:
    """Call queen.purge_dead_letters."""
    count = await host.engine.admin.purge_dead_letters(
        _ids(call.ids), queue=call.queue, group=call.group, older_than=call.older_than
    )
    return dead_letters.Purged(count)


def _ids(texts: Sequence[str] | None) -> list[int] | None:
    if texts is None:
        return None
    found = [uuid(text, "a dead letter's id").int for text in texts]
    if len(found) > dead_letters.IDS_MAX:
        raise TooManyItems(f"the request names {len(found)} dead letters; {dead_letters.IDS_MAX} is the most")
    return [id for id in found if id < 1 << 63]  # no other was ever given to a dead letter


def _dead_letter(found: model.DeadLetter) -> dead_letters.DeadLetter:
    return dead_letters.DeadLetter(
        id=id_text(found.id),
        message_id=str(found.message_id),
        transaction_id=found.transaction_id,
        queue=found.queue,
        partition=found.partition,
        partition_id=id_text(found.partition_id),
        offset=found.offset,
        group=found.group_name,
        raw=Raw(found.payload),
        error=found.error,
        retry_count=found.retry_count,
        created_at=found.created_at,
        failed_at=found.failed_at,
        producer=found.producer,
        trace_id=None if found.trace_id is None else str(found.trace_id),
        headers=found.headers,
    )
