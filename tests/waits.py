"""How tests wait: for a condition, until a deadline. No test waits without an end.

    await until("the poll is parked", lambda: parked() == 1)
    popped = await until("a message arrives", lambda: pop(http, queue))

`condition` is a function or a coroutine function. It is called again and again until it returns something true, which
is returned. If that does not happen in time, the test fails and says what it waited for.
"""

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any

WAIT_SECONDS_MAX = 60.0
PAUSE_SECONDS = 0.01


async def until(what: str, condition: Callable[[], Any], *, seconds: float = WAIT_SECONDS_MAX) -> Any:
    """Wait without holding up other tasks."""
    deadline = Deadline(what, seconds)
    while not (found := await _called(condition)):
        deadline.check()
        await asyncio.sleep(PAUSE_SECONDS)
    return found


def until_now(what: str, condition: Callable[[], Any], *, seconds: float = WAIT_SECONDS_MAX) -> Any:
    """The same for tests without an event loop."""
    deadline = Deadline(what, seconds)
    while not (found := condition()):
        deadline.check()
        time.sleep(PAUSE_SECONDS)
    return found


class Deadline:
    """The moment after which a test does not wait any longer: `while …: deadline.check()`."""

    def __init__(self, what: str | Callable[..., Any], seconds: float = WAIT_SECONDS_MAX) -> None:
        """`what`: a sentence, or the condition itself, which is then quoted."""
        self._what = what
        self._seconds = seconds
        self._end = time.monotonic() + seconds

    def check(self) -> None:
        """Fail if it has passed."""
        if time.monotonic() > self._end:
            what = inspect.getsource(self._what).strip() if callable(self._what) else self._what
            raise AssertionError(f"not within {self._seconds:g} s: {what}")


async def _called(condition: Callable[[], Any]) -> Any:
    found = condition()
    return await found if inspect.isawaitable(found) else found
