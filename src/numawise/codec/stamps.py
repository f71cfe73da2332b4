"""Points in time as the API server and our own files write them: RFC 3339, in UTC.

Rules kept here:

1. Whole seconds in objects and files; microseconds in Leases, Events and logs of changes.
2. What is read may be anybody's text: whatever is no time of a year that exists is None.
"""

from datetime import UTC, datetime

LONGEST = 40
"""Characters of a time, with nanoseconds and an offset."""


def second_stamp(seconds: float) -> str:
    """Seconds since 1970 as ``2026-11-16T19:02:17Z``."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_stamp(seconds: float) -> str:
    """Seconds since 1970 as ``2026-11-16T19:02:17.000125Z``."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def stamp_seconds(text: object) -> float | None:
    """A time as seconds since 1970; None: it is none (rule 2)."""
    if not isinstance(text, str) or len(text) > LONGEST:
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
