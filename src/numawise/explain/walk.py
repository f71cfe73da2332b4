"""A decision step by step: hints, the merge narrowing, the verdict; then what was taken, pass by pass.

Rules kept here:

1. The steps are those that the engine reported, in its order; nothing is decided here again.
2. What a pass was about is known once its container has its CPUs, or has failed: passes wait for that.
3. A pod that the kubelet knows already keeps what it has; a step says so, as nothing is taken for it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from numawise.engine.admit import Admitted, Crashed, Decision
from numawise.engine.state import NodeState
from numawise.engine.trace import (
    AllocationFailed,
    CpuPassBegan,
    CpusGranted,
    CpusTaken,
    DevicesChosen,
    HintsMerged,
    MemoryGranted,
    Step,
)
from numawise.explain.case import ExplainCase
from numawise.explain.free import asked_of, voters_of
from numawise.explain.rounds import HintMerge, merges_in, merging_of, round_of, state_at
from numawise.explain.words import amount, numa_text
from numawise.machine.model import CpuLayout
from numawise.render.merging import best_text, narrowing_text, whose
from numawise.render.words import both, counted
from numawise.request.model import CPU, MEMORY
from numawise.results.explanation import (
    BYTES,
    IMPOSSIBLE,
    NO_PREFERENCE,
    POSSIBLE,
    PREFERRED,
    DecisionWalk,
    Explanation,
    ResourceHints,
    Round,
)
from numawise.results.walk import (
    CPUS_STEP,
    DEVICES_STEP,
    FAILED_STEP,
    HINTS_STEP,
    MEMORY_STEP,
    MERGE_STEP,
    OUTCOME_STEP,
    VERDICT_STEP,
    StepDevice,
    WalkStep,
)
from numawise.sets import CpuSet, NumaSet, format_ids
from numawise.values import dataclass

PASSES: Mapping[str, tuple[str, str]] = {
    "numa": ("Whole NUMA nodes", "NUMA node"),
    "socket": ("Whole sockets", "socket"),
    "uncore": ("L3 groups", "L3 group"),
    "core": ("Whole cores", "core"),
    "cpu": ("Single CPUs", "CPU"),
    "share of numa": ("Even shares of NUMA nodes", "NUMA node"),
}
"""Unit of a pass → its title, and one of them."""
MANAGERS: Mapping[str, str] = {"device": "Device Manager", "cpu": "CPU Manager", "memory": "Memory Manager"}


@dataclass(frozen=True, slots=True)
class CpuPass:
    """One pass of the CPU choice, with what it took."""

    began: CpuPassBegan
    taken: tuple[CpusTaken, ...] = ()

    @property
    def cpus(self) -> int:
        """All CPUs it took, packed."""
        bits = 0
        for one in self.taken:
            bits |= one.cpus
        return bits


def walk_of(
    case: ExplainCase, decision: Decision, steps: Sequence[Step], explanation: Explanation
) -> DecisionWalk:
    """All steps of a decision; the explanation says how it ended."""
    merges = merges_in(steps)
    rounds = [_round(case, decision, merges, merge) for merge in merges]
    drawn: list[WalkStep] = []
    passes: list[CpuPass] = []
    heard = 0
    state = decision.state if not isinstance(decision, Crashed) else case.state
    for step in steps:
        match step:
            case HintsMerged():
                drawn += _round_steps(heard, rounds[heard], explanation.policy, merging_of(case).rule)
                heard += 1
            case CpuPassBegan():
                passes.append(CpuPass(step))
            case CpusTaken():
                last = passes.pop() if passes else CpuPass(CpuPassBegan(step.unit, 0, 0))
                passes.append(CpuPass(last.began, (*last.taken, step)))
            case CpusGranted():
                drawn += _pass_steps(case, passes, step.container, step)
                passes = []
            case MemoryGranted():
                drawn.append(_memory_step(step))
            case DevicesChosen():
                drawn.append(_devices_step(step, case.state, state))
            case AllocationFailed():
                drawn += _pass_steps(case, passes, step.container, None)
                passes = []
                drawn.append(_failed_step(step))
    if case.again:
        drawn += _kept_steps(case)
    return DecisionWalk((*drawn, _outcome_step(case, decision, explanation)), tuple(rounds))


def rounds_walk(explanation: Explanation) -> DecisionWalk | None:
    """The steps of an explanation of which one round of hints alone is known; None: not even that."""
    if explanation.round is None:
        return None
    steps = _round_steps(0, explanation.round, explanation.policy, explanation.rule)
    outcome = WalkStep(OUTCOME_STEP, _end(explanation), explanation.answer, ok=explanation.admitted)
    return DecisionWalk((*steps, outcome), (explanation.round,))


# --- rounds of merging --------------------------------------------------------------------------


def _round(case: ExplainCase, decision: Decision, merges: Sequence[HintMerge], merge: HintMerge) -> Round:
    voters = voters_of(case, state_at(case, decision, merges, merge), merge.found)
    return round_of(voters, merge.merged, merging_of(case))


def _round_steps(number: int, merge: Round, policy: str, rule: str) -> Iterator[WalkStep]:
    container = merge.container or ""
    owner = f" of {whose(merge.container)}" if merge.container != "" else ""
    asked = "; ".join(_hints_text(one) for one in merge.hints)
    text = asked or "nothing is asked for that a manager aligns, so that any NUMA node will do"
    yield WalkStep(HINTS_STEP, f"Hints{owner}", text, container, round=number)
    for at, narrowing in enumerate(merge.narrowings):
        yield WalkStep(
            MERGE_STEP,
            "Merge",
            narrowing_text(narrowing),
            container,
            round=number,
            narrowing=at,
            numa=NumaSet(narrowing.reach),
        )
    numa = merge.best.numa if merge.best.numa is not None else NumaSet()
    head = f"Verdict of {policy}" if policy else "Verdict"
    yield WalkStep(
        VERDICT_STEP,
        head,
        f"best: {best_text(merge)}",
        container,
        merge.admitted,
        number,
        numa=numa,
        rule=rule,
    )


def _hints_text(hints: ResourceHints) -> str:
    """``cpu: NUMA 1 preferred, NUMA 0 possible``."""
    if hints.answer == NO_PREFERENCE:
        return f"{hints.resource}: {hints.note or 'no preference'}"
    if hints.answer == IMPOSSIBLE:
        return f"{hints.resource}: nowhere"
    masks = dict.fromkeys((PREFERRED, POSSIBLE), 0)
    for place in hints.places:
        if place.mark in masks:
            masks[place.mark] |= 1 << place.numa
    alone = [f"{numa_text(mask)} {mark}" for mark, mask in masks.items() if mask]
    if alone:
        return f"{hints.resource}: {', '.join(alone)}"
    several = [f"{format_ids(mask)}{' preferred' if liked else ''}" for mask, liked in hints.wider[:2]]
    together = f", only NUMA {both(several, 'or')} together" if several else ""
    return f"{hints.resource}: no NUMA node alone{together}"


# --- what was taken -----------------------------------------------------------------------------


def _pass_steps(
    case: ExplainCase, passes: Iterable[CpuPass], container: str | None, granted: CpusGranted | None
) -> Iterator[WalkStep]:
    """A step for each pass; ``granted``: what came of all of them, None: too little."""
    layout = case.machine.layout
    before, asked = 0, asked_of(case, container or None, CPU)
    for one in passes:
        heading, unit = PASSES.get(one.began.unit, (one.began.unit, one.began.unit))
        beyond = granted is not None and bool(granted.aligned) and not granted.aligned & ~before
        where = " beyond the chosen NUMA nodes" if beyond else ""
        wanted = max(one.began.wanted, asked - before.bit_count())
        text = _taken_text(one, unit, wanted, layout) if one.cpus else _nothing_text(layout, one, unit)
        yield WalkStep(
            CPUS_STEP,
            f"{heading}{where}",
            text,
            container or "",
            numa=_numa_of(layout, one.cpus),
            cpus=CpuSet(one.cpus),
            before=CpuSet(before),
            wanted=wanted,
        )
        before |= one.cpus


def _taken_text(one: CpuPass, unit: str, wanted: int, layout: CpuLayout) -> str:
    """``4 cores give 8 of the 8 CPUs wanted: 2-5,66-69 on NUMA 0``."""
    count = len({(part.unit, part.name) for part in one.taken})
    size = one.cpus.bit_count()
    numa = _numa_of(layout, one.cpus)
    place = f" on NUMA {numa}" if len(numa) else ""
    whole = "all" if wanted > 1 else "the"
    rest = whole if size >= wanted else f"{size} of the"
    wish = f"{rest} {counted(wanted, 'CPU')} wanted"
    if one.began.unit == "cpu":
        return f"{wish}: {format_ids(one.cpus)}{place}"
    return f"{counted(count, unit)} {'gives' if count == 1 else 'give'} {wish}: {format_ids(one.cpus)}{place}"


def _nothing_text(layout: CpuLayout, one: CpuPass, unit: str) -> str:
    """Why a pass took nothing."""
    units = {
        "numa": layout.numas,
        "socket": layout.sockets,
        "uncore": layout.uncores,
        "core": layout.cores,
    }.get(one.began.unit, {})
    smallest = min((cpus.bit_count() for cpus in units.values() if cpus), default=0)
    wanted = one.began.wanted
    if smallest > wanted:
        are = "is" if wanted == 1 else "are"
        return f"none: a {unit} has {smallest} CPUs, and only {wanted} {are} wanted"
    if all(cpus & ~one.began.free for cpus in units.values()):
        return f"none: no {unit} is wholly free"
    return "none fits"


def _numa_of(layout: CpuLayout, cpus: int) -> NumaSet:
    bits = 0
    for numa, own in layout.numas.items():
        if own & cpus:
            bits |= 1 << numa
    return NumaSet(bits)


def _memory_step(step: MemoryGranted) -> WalkStep:
    sizes = [
        f"{amount(BYTES, size)}{'' if kind == MEMORY else f' of {kind}'}" for kind, size in step.sizes if size
    ]
    text = f"{both(sizes) or 'nothing'} on {numa_text(step.numa)}"
    if step.extended:
        text += ": the chosen NUMA nodes have too little, so that more were added"
    head = f"Memory of {whose(step.container)}"
    return WalkStep(MEMORY_STEP, head, text, step.container or "", numa=NumaSet(step.numa))


def _devices_step(step: DevicesChosen, before: NodeState, after: NodeState) -> WalkStep:
    devices = _devices(step.resource, step.chosen, before, after)
    numa = 0
    for device in devices:
        numa |= device.numa.bits
    text = f"{', '.join(step.chosen) or 'none'}" + (f" on {numa_text(numa)}" if numa else "")
    if not step.aligned:
        text += ", not all of them on the chosen NUMA nodes"
    if step.free:
        others = [name for name in step.open_to if name not in step.chosen]
        text += f"; the kubelet may as well take {both(others[:4], 'or')}" if others else ""
    head = f"{step.resource} of {whose(step.container)}"
    return WalkStep(DEVICES_STEP, head, text, step.container, numa=NumaSet(numa), devices=devices)


def _devices(
    resource: str, names: Iterable[str], before: NodeState, after: NodeState
) -> tuple[StepDevice, ...]:
    plugin = after.devices.plugins.get(resource) or before.devices.plugins.get(resource)
    devices = plugin.devices if plugin is not None else {}
    found = []
    for name in sorted(names):
        bits = 0
        for numa in (devices[name].numa or ()) if name in devices else ():
            bits |= 1 << numa if numa >= 0 else 0
        found.append(StepDevice(resource, name, NumaSet(bits)))
    return tuple(found)


def _failed_step(step: AllocationFailed) -> WalkStep:
    who = MANAGERS.get(step.provider, step.provider)
    return WalkStep(FAILED_STEP, f"{who} refuses", f"{step.reason}: {step.message}", step.container, ok=False)


# --- the end ------------------------------------------------------------------------------------


def _kept_steps(case: ExplainCase) -> Iterator[WalkStep]:
    """What a pod has since before (rule 3)."""
    layout, uid = case.machine.layout, case.pod.uid
    for container, cpus in case.state.cpu.assignments.get(uid, {}).items():
        numa = _numa_of(layout, cpus)
        yield WalkStep(
            CPUS_STEP,
            f"Kept by {whose(container)}",
            f"it has {counted(cpus.bit_count(), 'CPU')} already: {format_ids(cpus)} on NUMA {numa}",
            container,
            numa=numa,
            cpus=CpuSet(cpus),
        )


def _end(explanation: Explanation) -> str:
    return "Admitted" if explanation.admitted else "Refused"


def _outcome_step(case: ExplainCase, decision: Decision, explanation: Explanation) -> WalkStep:
    """How it ended, and all that the pod holds then."""
    admitted = isinstance(decision, Admitted)
    cpus = numa = 0
    devices: tuple[StepDevice, ...] = ()
    if isinstance(decision, Admitted):
        state, uid = decision.state, case.pod.uid
        cpus = state.cpu.pods.get(uid, 0)
        for own in state.cpu.assignments.get(uid, {}).values():
            cpus |= own
        for blocks in state.memory.assignments.get(uid, {}).values():
            for block in blocks:
                numa |= block.numa
        numa |= _numa_of(case.machine.layout, cpus).bits
        for grants in state.devices.grants.get(uid, {}).values():
            for resource, grant in grants.items():
                devices += _devices(resource, grant.ids, case.state, state)
        for device in devices:
            numa |= device.numa.bits
    return WalkStep(
        OUTCOME_STEP,
        _end(explanation),
        explanation.answer,
        explanation.container,
        admitted,
        numa=NumaSet(numa),
        cpus=CpuSet(cpus),
        devices=devices,
    )
