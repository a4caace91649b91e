"""What calls cost: counted in pages, not in time."""

import json


async def pages(queue, function, *arguments):
    """How many pages a call looks at."""
    arguments = (*arguments, queue.clock.now)
    marks = ", ".join([*(f"${number}" for number in range(1, len(arguments))), f"p_now => ${len(arguments)}"])
    plan = await queue.connection.fetchval(
        f"explain (analyze, buffers, format json) select * from queen.{function}({marks})", *arguments
    )
    return json.loads(plan)[0]["Plan"]["Shared Hit Blocks"]
