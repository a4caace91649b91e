"""Push results: where the messages of each caller were stored, in the order of its request."""

from collections.abc import Sequence
from typing import Any

from queenmq.engine.dedup.partition_ids import Original
from queenmq.engine.push.flush import Flush
from queenmq.engine.push.push_request import PushRequest, sizes
from queenmq.model import Pushed, PushedRun, PushedRuns
from queenmq.model.outgoing import place_run


def results(requests: Sequence[PushRequest], flush: Flush, row: Any) -> Sequence[Sequence[Pushed]]:
    """The results for each caller. `row` is None if nothing was written."""
    if len(requests) == 1 and not flush.duplicates and not flush.repeats:
        return [_all_new(flush, row)]
    answers: list[Any] = [None] * flush.request.size
    whole = sizes(requests)
    runs: dict[int, PushedRun] = {}  # by first index: segments that are a whole request
    originals: dict[tuple[int, str | None], Original] = {}  # needed only if an id comes twice in the flush
    for draft, first_offset, created_at in flush.written(row) if row is not None else ():
        if whole.get(draft.indexes[0]) == len(draft.indexes) and isinstance(draft.indexes, range):
            runs[draft.indexes[0]] = draft.run(first_offset, created_at)
        else:
            place_run(answers, draft.indexes, draft.partition.id, first_offset, created_at, draft.ids)
        if flush.repeats and draft.ids is not None:
            for offset, id in enumerate(draft.ids, first_offset):
                originals[draft.partition.id, id] = Original(offset, created_at)
    for index, partition, id, original in flush.duplicates:
        answers[index] = Pushed(partition.id, original.offset, original.created_at, id, True)
    for index, partition, id in flush.repeats:
        first = originals[partition.id, id]
        answers[index] = Pushed(partition.id, first.offset, first.created_at, id, True)
    return [runs.get(start) or answers[start : start + size] for start, size in whole.items()]


def _all_new(flush: Flush, row: Any) -> Sequence[Pushed]:
    """All messages are new: the results are made only if the caller looks at them."""
    drafts, offsets, times = flush.drafts, row["first_offsets"], flush.times(row)
    if len(drafts) == 1:
        return drafts[0].run(offsets[0], times[0])
    columns = [[draft.indexes for draft in drafts], [draft.partition.id for draft in drafts], offsets, times]
    if flush.request.ids is not None:
        columns.append([draft.ids for draft in drafts])
    return PushedRuns(flush.request.size, *columns)
