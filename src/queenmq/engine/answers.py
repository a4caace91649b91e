"""What callers are told of a push: where their messages are, in the order in which they gave them."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from queenmq.engine.drafts import Draft, Flush, Original
from queenmq.engine.requests import PushRequest, sizes
from queenmq.model import Pushed, PushedRun, PushedRuns
from queenmq.model.outgoing import place_run


def written(flush: Flush, row: Any) -> Iterable[tuple[Draft, int, datetime]]:
    """The segments of a flush, where they begin and when that was."""
    return zip(flush.drafts, row["first_offsets"], _times(flush, row), strict=True)


def answered(requests: Sequence[PushRequest], flush: Flush, row: Any) -> Sequence[Sequence[Pushed]]:
    """What every caller is told; `row` is None when nothing was written."""
    if len(requests) == 1 and not flush.duplicates and not flush.repeats:
        return [_all_new(flush, row)]
    answers: list[Any] = [None] * flush.request.size
    whole = sizes(requests)
    runs: dict[int, PushedRun] = {}  # by the place of the first: those of a whole request
    originals: dict[tuple[int, str | None], Original] = {}  # only where an id comes twice in the flush
    for draft, first_offset, created_at in written(flush, row) if row is not None else ():
        if whole.get(draft.places[0]) == len(draft.places) and isinstance(draft.places, range):
            runs[draft.places[0]] = draft.run(first_offset, created_at)
        else:
            place_run(answers, draft.places, draft.partition.id, first_offset, created_at, draft.ids)
        if flush.repeats and draft.ids is not None:
            for offset, id in enumerate(draft.ids, first_offset):
                originals[draft.partition.id, id] = Original(offset, created_at)
    for place, partition, id, original in flush.duplicates:
        answers[place] = Pushed(partition.id, original.offset, original.created_at, id, True)
    for place, partition, id in flush.repeats:
        first = originals[partition.id, id]
        answers[place] = Pushed(partition.id, first.offset, first.created_at, id, True)
    return [runs.get(start) or answers[start : start + size] for start, size in whole.items()]


def _all_new(flush: Flush, row: Any) -> Sequence[Pushed]:
    """Mostly nobody looks at what is told of each message."""
    drafts, offsets, times = flush.drafts, row["first_offsets"], _times(flush, row)
    if len(drafts) == 1:
        return drafts[0].run(offsets[0], times[0])
    columns = [[draft.places for draft in drafts], [draft.partition.id for draft in drafts], offsets, times]
    if flush.request.ids is not None:
        columns.append([draft.ids for draft in drafts])
    return PushedRuns(flush.request.size, *columns)


def _times(flush: Flush, row: Any) -> Sequence[datetime]:
    """When each segment was written, which mostly is the same for all."""
    times: list[datetime] = row["created_ats"]
    return times * (len(flush.drafts) // len(times))
