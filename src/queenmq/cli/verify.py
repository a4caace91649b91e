"""queen verify: does everything add up."""

from typing import Annotated

import typer

from queenmq.api.diagnosis import Verification, Verify
from queenmq.cli import Exit
from queenmq.cli.connection import check_queue, connected
from queenmq.cli.options import Dsn, Json, Url, command_app
from queenmq.cli.printing import print_json, print_table
from queenmq.client.queen import AsyncQueen

COUNTS = ("pushed", "skipped", "completed", "dead_lettered", "expired", "leased", "pending")
RARE = {"skipped", "dead_lettered", "expired"}  # shown where there are any: a line has 80 columns

app = command_app()


@app.command("verify")
def main(
    queue: Annotated[str | None, typer.Argument(help="Only this queue.")] = None,
    url: Url = None,
    dsn: Dsn = None,
    *,
    json: Json = False,
) -> None:
    """Check that everything pushed is accounted for.

    Exit status 1 on any difference. For each group: pushed = skipped + completed + dead-lettered + expired + leased +
    pending. It also runs all consistency checks, which read everything that is stored.

    ```
    queen verify orders && echo all is well
    ```
    """

    async def look(queen: AsyncQueen) -> Verification:
        await check_queue(queen, queue)
        return await queen.call(Verify(queue))

    found = connected(url, dsn, look)
    if json:
        print_json(found)
    else:
        shown = [name for name in COUNTS if name not in RARE or any(getattr(each, name) for each in found.ledger)]
        columns = ("queue", "group", "partitions", *(name.replace("_", " ") for name in shown), "balanced")
        lines = [(each.queue, each.group, each.partitions, *(getattr(each, name) for name in shown), each.balanced)
                 for each in found.ledger]  # fmt: skip
        print_table(columns, lines, "No group has read anything yet.")
        if found.findings:
            print()
            differences = [(each.check, each.queue, each.partition, each.detail) for each in found.findings]
            print_table(("check", "queue", "partition", "difference"), differences, "")
        print("\nEverything adds up." if found.consistent else f"\nDifferences: {len(found.findings)}.")
    raise typer.Exit(Exit.OK if found.consistent else Exit.FAILED)
