"""Which suggestion stands first: the one that costs least of what a person gives up for it.

Rules kept here:

1. The level counts first: what is given up, from nothing to a device.  ``docs/explanation/suggestions.md``
   gives the reasons.
2. Within a level, what leaves the devices alone stands before what does not; then fewer edits; then the
   smaller loss.
3. Less of an amount is ranked by what is left of it: of memory nearly all, of CPUs and others at least half,
   or less than that.
"""

from enum import IntEnum

from numawise.explain.case import ExplainCase
from numawise.explain.change import SetAmount
from numawise.results.explanation import Suggestion
from numawise.values import dataclass


class Level(IntEnum):
    """What is given up (rule 1)."""

    NOTHING = 0
    """Another node, a new pod, the same amount written otherwise, devices that are repaired."""
    LITTLE = 1
    """One number, a little; or the exclusive CPUs of an init container."""
    WAIT = 2
    """The pod stays as it is, or asks for more: other pods end first, or it spans NUMA nodes evenly."""
    PART = 3
    """At least half of every amount is kept."""
    SETTING = 4
    """The kubelet restarts, and all pods of the node are aligned by another rule."""
    ALIGNMENT = 5
    """Exclusive CPUs, or the alignment."""
    MOST = 6
    """More than a quarter of the GPUs, or more than half of another amount."""
    DEVICE = 7
    """A device, or huge pages, altogether."""


LITTLE_CPU, LITTLE_MEMORY, HALF = 0.5, 0.125, 0.5
"""Parts of an amount: with fewer CPUs a pod is slower, with less memory it may be killed."""
FEW_GPUS = 0.25
"""Part of the GPUs, which the rest of the pod is there for."""
MUCH_MORE = 3.0
"""Growth by more than this part of an amount takes from others what the pod hardly needs."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A suggestion and its place among others."""

    level: Level
    suggestion: Suggestion
    edits: int = 1
    """Numbers, settings and pods that change."""
    loss: float = 0.0
    fewer_devices: bool = False
    changes: tuple[SetAmount, ...] = ()
    """Of other amounts: the same as values."""
    after: ExplainCase | None = None
    """The case after the change, as it was admitted."""

    @property
    def key(self) -> tuple[int, bool, int, float]:
        """Sort key, best first (rule 2)."""
        return self.level, self.fewer_devices, self.edits, self.loss


def level_of_loss(loss: float, little: float) -> Level:
    """The level of less of an amount, by the part that is given up (rule 3)."""
    if loss <= little:
        return Level.LITTLE
    return Level.PART if loss <= HALF else Level.MOST
