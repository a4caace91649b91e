"""Steps of an archive that PostgreSQL has lost: it went back to an earlier state after they were archived.

Their messages are in the archive alone, and the database gives out their offsets a second time. So they do not belong
to the history of the queue any more. Nothing happens to them until somebody says so; then they are set aside, below
`_lost`, where neither `history` nor a reader of `queue=…/**` finds them.
"""

import json
from collections.abc import Sequence

from msgspec import structs

from queenmq.errors import PositionLost
from queenmq.spark.connection import Connection
from queenmq.spark.pipelines.manifest import ArchiveUnusable, Manifest, Step
from queenmq.spark.pipelines.store import Store

SHOWN = 5  # steps that an error names

# The database keeps the tick up to which it was archived, however old that is.
COMMON = """
select coalesce((select c.id from queen.common_tick($1, $2, $3) as c),
                (select a.tick from queen.archives a where a.queue_id = $4))
"""


class StepsLost(PositionLost):
    """The archive has steps that the database no longer knows."""

    hint = (
        "Run queen pipeline archive with --accept-loss: it moves these steps to _lost below the archive, "
        "and archives again what the database has since then."
    )


def lost_steps(connection: Connection, steps: Sequence[Step]) -> Sequence[Step]:
    """The steps at the end of an archive that the database has lost, in order. Steps without a mark are believed."""
    if not steps or steps[-1].to_mark is None:
        return ()
    last = steps[-1]
    common = connection.value(COMMON, last.to_tick, last.to_mark, json.dumps(last.to_trail), last.queue_id)
    if common is None:
        raise ArchiveUnusable(
            f'the archive of "{last.queue}" ends with tick {last.to_tick}, and this database knows no tick of it; '
            "archive to another location"
        )
    return [step for step in steps if step.to_tick > common]


def refusal(store: Store, lost: Sequence[Step]) -> StepsLost:
    """The error that names lost steps."""
    names = ", ".join(step.name for step in lost[:SHOWN]) + (", …" if len(lost) > SHOWN else "")
    return StepsLost(
        f'PostgreSQL has lost what is in {len(lost)} steps of the archive of "{lost[0].queue}" in {store.location}: '
        f"{names} (ticks {lost[0].from_tick} to {lost[-1].to_tick}, {sum(step.rows for step in lost)} messages)"
    )


def set_aside(store: Store, manifest: Manifest, lost: Sequence[Step]) -> None:
    """Take steps out of the archive, the last one first, and keep them below `_lost`.

    An interruption does no harm: what is left of a step is still in the archive, and is set aside by the next run.
    """
    for step in reversed(lost):
        files = tuple(structs.replace(file, path=_place(step, file.path)) for file in step.files)
        manifest.keep_lost(structs.replace(step, files=files))
        for file, moved in zip(step.files, files, strict=True):
            store.move(file.path, moved.path)
        manifest.remove(step)


def _place(step: Step, path: str) -> str:
    """Where a file goes; the mark tells apart what was lost at different times under the same numbers."""
    return f"_lost/{step.short_mark}/{path}"
