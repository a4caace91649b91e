"""What calls cost: counted in pages, not in time."""

import json


async def pages(queue, function, *arguments):
    """How many pages a call looks at."""
    arguments = (*arguments, queue.clock.now)
    marks = ", ".join([*(f"${number}" for number in range(1, len(arguments))), f"p_now => ${len(arguments)}"])
    return await pages_of(queue.connection, f"select * from queen.{function}({marks})", *arguments)


async def pages_of(connection, statement, *arguments):
    """How many pages a statement looks at."""
    plan = await connection.fetchval(f"explain (analyze, buffers, format json) {statement}", *arguments)
    return json.loads(plan)[0]["Plan"]["Shared Hit Blocks"]
