"""Fenced GPUs: a job without GPUs sees none, and one with GPUs sees only its own.

Rules kept here:

1. Where the kernel can be made to refuse the devices of others' GPUs to the job's control group, it is:
   ``rules``.  That needs root.  Otherwise the usual variables hide them: ``variables``, which a job that
   wants to could change.  The variables are set in both cases: programs do not stumble over closed doors.
2. Which of the two it is, is said at the start and stands in the ledger; where rules fail after all, a job is
   never left half fenced: variables take their place, and that is said, or the job does not start where rules
   alone were asked for.
3. Other devices are never refused.
4. An administrator decides for a machine (``fence-gpus``): there only root may do without.
"""

from collections.abc import Iterable
from pathlib import Path

from numawise.errors import HostError, InputError
from numawise.host import confine
from numawise.host.plan import DeviceNumber
from numawise.host.settings import FENCE, HostSettings
from numawise.machine.hardware import AMD, NVIDIA, Gpu
from numawise.results.placement import FENCE_LABEL, RULES, VARIABLES, Hold
from numawise.values import dataclass, replace

BEST = "best"
"""Rules where they can be had, else variables."""
WAYS = (BEST, RULES, VARIABLES)
NO = "no"


@dataclass(frozen=True, slots=True)
class Fencing:
    """How a job is kept from GPUs that are not its own."""

    how: str = ""
    """``rules``, ``variables`` or ''."""
    refused: tuple[DeviceNumber, ...] = ()
    remarks: tuple[str, ...] = ()


def fence_wanted(asked: str, settings: HostSettings, uid: int) -> str:
    """How a user's word (one of ``WAYS``, ``no`` or '') and the machine's setting go together (rule 4)."""
    if asked == NO and settings.fence_gpus and uid != 0:
        where = dict(settings.origins).get(FENCE, "the settings")
        raise InputError(
            f"cannot be used: GPUs are fenced on this machine ({FENCE} in {where})",
            field="--no-fence",
            advice="ask for the GPUs that the job needs with --gpus",
        )
    if asked == NO:
        return ""
    return asked or (BEST if settings.fence_gpus else "")


def fencing(
    wanted: str, mode: str, gpus: Iterable[Gpu], granted: Iterable[Gpu], root: Path = Path("/")
) -> Fencing:
    """The fence of a job in a mode (rule 1); raise ``HostError`` where rules are a must and cannot be had."""
    every = tuple(gpus)
    if not wanted or not every:
        return Fencing()
    remarks: tuple[str, ...] = ()
    if wanted != VARIABLES:
        from numawise.host.gpu_nodes import others_devices  # noqa: PLC0415 - few jobs are fenced

        others = others_devices(every, granted, root)
        problem = confine.fence_problem(mode, root) or others.problem
        if not problem:
            return Fencing(RULES, others.numbers, others.remarks)
        if wanted == RULES:
            raise no_rules(problem)
        remarks = (f"GPUs are hidden by variables alone, which a job could change: {problem}",)
    unhidden = [gpu.name for gpu in every if gpu.maker not in (NVIDIA, AMD)]
    if unhidden and not set(unhidden) <= {gpu.name for gpu in granted}:
        remarks = (*remarks, f"no variable hides {', '.join(unhidden)}")
    return Fencing(VARIABLES, (), remarks)


def no_rules(problem: str) -> HostError:
    """The refusal where rules alone were asked for."""
    return HostError(
        f"GPUs cannot be fenced by device rules: {problem}",
        "run it as root with control groups, or write --fence alone to hide them by variables",
    )


def with_fence(hold: Hold, how: str) -> Hold:
    """The hold with how its GPUs are fenced."""
    labels = tuple(label for label in hold.labels if label[0] != FENCE_LABEL)
    return replace(hold, labels=(*labels, (FENCE_LABEL, how)) if how else labels)
