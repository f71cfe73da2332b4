"""What a program that goes on for ever does, feature by feature.

Rules kept here:

1. A duty starts, has tasks that go on for ever, and stops.  What is wrong at the start is an error that ends
   the program; what goes wrong later is said once, and tried again.
2. Ready is a duty that does what it is for; ``missing`` says why it is not.  Healthy is one whose tasks go
   on; ``stuck`` says which does not.  Both are asked often, and answered from memory.
"""

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Protocol

from numawise.values import dataclass

GAUGE, COUNTER, INFO_METRIC, HISTOGRAM = "gauge", "counter", "info", "histogram"
SUFFIXES = {COUNTER: "_total", INFO_METRIC: "_info"}
MetricRow = tuple[Mapping[str, str], float]
"""Labels and value."""


@dataclass(frozen=True, slots=True)
class MetricName:
    """A family of metrics, as the documentation lists it."""

    name: str
    """Without the suffix of its kind."""
    kind: str
    words: str

    def of(self, *rows: MetricRow) -> "MetricFamily":
        """The family with its rows."""
        return MetricFamily(self, rows)


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """A family of metrics with what was counted."""

    about: MetricName
    rows: Sequence[MetricRow]
    parts: Sequence[tuple[str, MetricRow]] = ()
    """Rows with a suffix of their own, as histograms have them."""


class Duty(Protocol):
    """One feature of a program."""

    @property
    def name(self) -> str:
        """What it is called in pages and logs."""
        ...

    async def start(self) -> None:
        """Make ready; an error here ends the program."""
        ...

    def tasks(self) -> Sequence[Coroutine[Any, Any, None]]:
        """What goes on for ever, once started."""
        ...

    async def stop(self) -> None:
        """Give back what it holds; called also when ``start`` failed."""
        ...

    def missing(self) -> Sequence[str]:
        """What is not ready, a line each."""
        ...

    def stuck(self) -> Sequence[str]:
        """What does not go on, a line each."""
        ...

    def families(self) -> Sequence[MetricFamily]:
        """Its metrics."""
        ...
