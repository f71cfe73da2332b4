"""Bodies of calls that end jobs on a host."""

from typing import Annotated

import msgspec

from numawise.codec.web.body import WebBody

LONGEST_TERM = 20.0

Term = Annotated[float, msgspec.Meta(ge=0.0, le=LONGEST_TERM)]


class ReleaseGiven(WebBody, frozen=True):
    """How a hold is given back whose job still runs; nothing: only if it does not."""

    term: Term | None = None
    """Ask the job to end, and kill after so many seconds what is left of it."""
    kill: bool = False
    """Kill the job first."""
    force: bool = False
    """Free it although its job is still running."""


class CancelGiven(WebBody, frozen=True):
    """Nothing more is asked of one who waits."""
