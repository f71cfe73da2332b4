"""Waiting for events.  Tests wait for the event itself; the bound is a safety net that no load reaches."""

import time
from collections.abc import Callable

PATIENCE = 900.0
"""Seconds."""


def until(true: Callable[[], object], what: str) -> None:
    """Wait until something is true; ``what`` did not happen otherwise."""
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, f"it never came: {what}"
        time.sleep(0.02)
