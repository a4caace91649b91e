"""Warnings about something that is tried again and again: one line when it begins to fail, not one for each attempt."""

import logging
from time import monotonic

QUIET_SECONDS = 60.0  # how long the same cause is not logged again
CAUSES_MAX = 100


class RepeatedWarning:
    """Logs a fixed sentence with its cause; the same cause at most once in QUIET_SECONDS."""

    def __init__(self, log: logging.Logger, sentence: str) -> None:
        self._log = log
        self._sentence = sentence
        self._logged_at: dict[str, float] = {}

    def write(self, error: BaseException) -> None:
        """Log the error as one line, unless that was done a short time ago."""
        cause, now = repr(error), monotonic()
        if now - self._logged_at.get(cause, -QUIET_SECONDS) < QUIET_SECONDS:
            return
        if len(self._logged_at) >= CAUSES_MAX:
            self._logged_at.clear()
        self._logged_at[cause] = now
        self._log.warning(self._sentence, extra={"cause": cause})
