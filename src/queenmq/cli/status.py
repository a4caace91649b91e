"""queen status: how things stand."""

from typing import Any

from queenmq.cli.connection import connected
from queenmq.cli.options import Dsn, Json, Url, command_app
from queenmq.cli.printing import print_facts, print_json
from queenmq.client.queen import AsyncQueen

app = command_app()


@app.command("status")
def main(url: Url = None, dsn: Dsn = None, *, json: Json = False) -> None:
    """Show how things stand, in a few numbers.

    Queues, messages, leases, maintenance, PostgreSQL.
    """
    status = connected(url, dsn, _look)
    if json:
        print_json(status)
        return
    overview, maintenance, postgres = status["overview"], status["maintenance"], status["postgres"]
    held = overview.messages
    print_facts(
        {
            "version": status["version"],
            "postgresql": f"{postgres.version}, {postgres.bytes / 2**20:,.0f} MB, "
            f"{postgres.connections} of {postgres.connections_max} connections",
            "queues": overview.queues,
            "partitions": overview.partitions,
            "groups": overview.groups,
            "leases": overview.leases,
            "stored": held.stored,
            "pending": held.pending,
            "leased": held.processing,
            "retrying": held.retrying,
            "dead letters": held.dead_letters,
            "pushes": "kept on disk (maintenance)" if maintenance.enabled else "stored",
            "on disk": maintenance.buffered_messages,
            "pops": "paused (maintenance)" if status["pops_paused"] else "served",
        }
    )


async def _look(queen: AsyncQueen) -> dict[str, Any]:
    return {
        "version": await queen.admin.version(),
        "overview": await queen.admin.overview(),
        "maintenance": await queen.admin.maintenance(),
        "pops_paused": await queen.admin.pop_maintenance(),
        "postgres": (await queen.admin.postgres()).database,
    }
