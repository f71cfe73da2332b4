"""How long things took, as a histogram: bounded in size however many there were."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from numawise.service.duty import MetricFamily, MetricName, MetricRow

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Seconds."""


class Durations:
    """Times by the value of one label."""

    def __init__(self, about: MetricName, label: str, values: Sequence[str]) -> None:
        self.about, self.label = about, label
        self._counts = {value: [0] * (len(BOUNDS) + 1) for value in values}
        self._sums = dict.fromkeys(values, 0.0)

    def took(self, value: str, seconds: float) -> None:
        """One took so long."""
        self._counts[value][bisect_left(BOUNDS, seconds)] += 1
        self._sums[value] += seconds

    def family(self) -> MetricFamily:
        """All of them."""
        parts: list[tuple[str, MetricRow]] = []
        for value, counts in self._counts.items():
            own: Mapping[str, str] = {self.label: value}
            sum_so_far = 0
            for bound, count in zip((*BOUNDS, float("inf")), counts, strict=True):
                sum_so_far += count
                text = "+Inf" if bound == float("inf") else f"{bound:g}"
                parts.append(("_bucket", ({**own, "le": text}, sum_so_far)))
            parts.append(("_count", (own, sum_so_far)))
            parts.append(("_sum", (own, self._sums[value])))
        return MetricFamily(self.about, (), tuple(parts))
