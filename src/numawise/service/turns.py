"""Whether loops go on: each says when it turns and how soon it will again; one that is late is stuck.

A loop that waits for something outside (a driver, a server) bounds that wait, or is stuck with it: whoever
reads ``/healthz`` is told which, and for how long.
"""

import time
from collections.abc import Callable

GRACE = 30.0
"""Seconds beyond what a loop said; a loaded machine is no reason to restart a program."""


class Turns:
    """The loops of a duty, and when each of them must have turned again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: dict[str, tuple[float, float]] = {}

    def turn(self, loop: str, within: float) -> None:
        """A loop goes on, and will again within so many seconds."""
        self._last[loop] = self._clock(), within

    def ended(self, loop: str) -> None:
        """A loop has ended, as it should."""
        self._last.pop(loop, None)

    def late(self) -> tuple[str, ...]:
        """The loops that are late, a sentence each."""
        now = self._clock()
        return tuple(
            f"{loop}: has not gone on for {now - last:.0f} seconds"
            for loop, (last, within) in self._last.items()
            if now - last > within + GRACE
        )
