"""Messages that are sent again, when the dedup window has many ids and when it has few."""

import random
from itertools import cycle

from bench.harness import Bench, Line, median, payloads, rate
from bench.push import FLUSH_MESSAGES, Work
from queenmq.engine import Engine
from queenmq.model import Outgoing

PARTITIONS = 10
FEW, MANY = 100_000, 2_000_000  # ids: of the fewer, too, most are known by their hashes
ROUNDS = 3


async def run(bench: Bench) -> None:
    few, many = (FEW, MANY) if not bench.quick else (FEW // 10, MANY // 50)
    async with bench.engine() as small, bench.engine() as large:
        resends = [await _fill(small, few), await _fill(large, many)]
        measured: tuple[list[float], list[float]] = ([], [])
        for _ in range(ROUNDS):  # taking turns, so that what disturbs one disturbs the other
            for rates, resend in zip(measured, resends, strict=True):
                rates.append(await rate(bench.seconds, 1, resend))
    less, more = map(median, measured)
    case = f"messages sent again, {many:,} ids in the window against {few:,}"
    bench.report(Line(case, "", f"{more / less:.2f}x", None, f"{many:,}: {more:,.0f}/s, {few:,}: {less:,.0f}/s"))


async def _fill(engine: Engine, count: int) -> Work:
    """Push so many messages; answers how to send some of them again, in no order."""
    texts = payloads()

    def flush(number: int) -> list[Outgoing]:
        first = number * FLUSH_MESSAGES
        return [
            Outgoing("q", texts[n % len(texts)], f"p{n % PARTITIONS}", f"order-{n}")
            for n in range(first, first + FLUSH_MESSAGES)
        ]

    order = list(range(count // FLUSH_MESSAGES))
    for number in order:
        await engine.push(flush(number))
    random.Random(7).shuffle(order)
    again = cycle(order)

    async def work(_: int) -> int:
        pushed = await engine.push(flush(next(again)))
        assert all(each.duplicate for each in pushed)
        return len(pushed)

    return work
