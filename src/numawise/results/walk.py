"""A decision as steps, in the order in which the kubelet took them; each points at parts of the machine.

Rules kept here:

1. Every round of merging is there, of admitted pods too, with all resources that were asked.
2. A step is complete for a reader: a title, a sentence, and whether it went well.  What it is about on the
   machine are values: NUMA nodes, CPUs, devices.
3. The CPUs of a container are taken pass by pass; a pass that took nothing is a step as well.
"""

from numawise.results.plain import optional
from numawise.sets import CpuSet, NumaSet
from numawise.values import dataclass

HINTS_STEP, MERGE_STEP, VERDICT_STEP = "hints", "merge", "verdict"
CPUS_STEP, MEMORY_STEP, DEVICES_STEP = "cpus", "memory", "devices"
FAILED_STEP, OUTCOME_STEP = "failed", "outcome"


@dataclass(frozen=True, slots=True)
class StepDevice:
    """A device that a step is about."""

    resource: str
    id: str
    numa: NumaSet = NumaSet()


@dataclass(frozen=True, slots=True)
class WalkStep:
    """One step of a decision."""

    kind: str
    """``hints``, ``merge``, ``verdict``, ``cpus``, ``memory``, ``devices``, ``failed`` or ``outcome``."""
    title: str
    text: str
    """What happened, in one sentence without a full stop."""
    container: str = ""
    """Whose step it is; '' for the pod as a whole."""
    ok: bool | None = None
    """It went well; false: here it was refused; null: it decides nothing by itself."""
    round: int | None = None
    """Of hints, merges and verdicts: the number of the round, from 0."""
    narrowing: int | None = None
    """Of a merge: which line of the round's narrowing it is, from 0."""
    numa: NumaSet = NumaSet()
    """NUMA nodes that the step is about."""
    cpus: CpuSet = CpuSet()
    """CPUs that it took."""
    before: CpuSet = CpuSet()
    """CPUs that the passes before it took for the same container."""
    wanted: int | None = optional(None)
    """Of a pass: CPUs that were still missing when it began."""
    devices: tuple[StepDevice, ...] = ()
    rule: str = optional("")
    """Of a verdict: what the policy demands."""
