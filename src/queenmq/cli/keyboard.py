"""A key that is pressed, noticed at once and not at the end of a line."""

import asyncio
import os
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def on_key(key: str, action: Callable[[], object]) -> Iterator[None]:
    """Do something when a key is pressed, or when the terminal has gone; afterwards the terminal is as it was."""
    loop, terminal = asyncio.get_running_loop(), sys.stdin.fileno()

    def read() -> None:
        pressed = os.read(terminal, 1)
        if pressed in (key.encode(), b""):
            action()

    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)
    loop.add_reader(terminal, read)
    try:
        yield
    finally:
        loop.remove_reader(terminal)
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
