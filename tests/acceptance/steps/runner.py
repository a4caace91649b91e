"""Run a chapter's steps with the client's interpreter, one after the other, and write down what they tell.

python runner.py URL CHAPTER REPORT [TOKEN]
"""

import asyncio
import importlib
import inspect
import json
import sys
import traceback
from pathlib import Path

from queen import Queen

STEP_SECONDS_MAX = 60


async def run(url: str, chapter: str, token: str | None) -> dict[str, str | None]:
    """Give every step a client and a queue of its own."""
    told: dict[str, str | None] = {}
    module = importlib.import_module(chapter)
    for name, step in vars(module).items():
        if inspect.iscoroutinefunction(step) and step.__module__ == chapter and not name.startswith("_"):
            async with Queen(url, retry_attempts=1, bearer_token=token) as client:
                try:
                    async with asyncio.timeout(STEP_SECONDS_MAX):
                        await step(client, f"{chapter}-{name}")
                    told[name] = None
                except Exception:  # noqa: BLE001 (whatever it is, it is the step's complaint)
                    told[name] = traceback.format_exc()
    return told


if __name__ == "__main__":
    _, url, chapter, report, *tokens = sys.argv
    Path(report).write_text(json.dumps(asyncio.run(run(url, chapter, tokens[0] if tokens else None))))
