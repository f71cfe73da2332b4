"""A KubeletConfiguration for a machine and a goal, with a reason for every line.

Rules kept here:

1. What comes out is started and tried: the simulated kubelet of the release must come up with it, and admit a
   pod with CPUs, memory and a device where the machine has some.
2. The strictest policy that suits the goal is tried first.  What the kubelet refuses on this machine, or
   needs longer than ``PATIENCE`` for, is given up, and why is reasons.
3. Nothing is set that decides nothing: on one NUMA node there is nothing to align.
4. CPUs are not given exclusively where cores differ in their threads: the kubelet judges them by the average,
   and hands out CPUs that are reserved or taken.
5. Laid over a node's own configuration, the planned fields replace those of the same name, a planned policy
   also the options that go with it.  Of reservations, thresholds and gates the members that the plan does
   not name stay, and so does every other field.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from numawise.apps.plan.options import Options, options_for
from numawise.apps.plan.reserve import (
    GIBI,
    LEAST_CAPACITY,
    MEBI,
    PlannedCpus,
    PlannedMemory,
    may_pin,
    mebi,
    reservation_text,
    reserve_cpus,
    reserve_memory,
    room,
    uneven,
)
from numawise.codec.kubelet.config import API_VERSION, KIND
from numawise.engine.admit import Admitted
from numawise.engine.topology.why import PER_MASK
from numawise.engine.trace import Step, TooManyCombinations
from numawise.errors import InputError
from numawise.machine.hardware import Hardware
from numawise.machine.model import Machine
from numawise.node.node import Files, SimulatedNode, boot
from numawise.quantity import Quantity
from numawise.render.words import counted
from numawise.request.defaults import RawContainer, RawPod, defaulted
from numawise.request.model import Role
from numawise.results.plan import (
    INFERENCE,
    LATENCY,
    TRAINING,
    Entry,
    KubeletPlan,
    NumaCapacity,
    PlanGoal,
    plain,
)
from numawise.rules import eviction
from numawise.rules.behaviour import behaviour_of
from numawise.rules.check import Refusal
from numawise.rules.gates import gates_of
from numawise.rules.model import NONE, RESTRICTED, SINGLE
from numawise.rules.versions import Version, shown
from numawise.sets import bits_of, format_ids
from numawise.values import dataclass, field, replace

GOVERNED = {
    "cpuManagerPolicy": ("cpuManagerPolicyOptions",),
    "topologyManagerPolicy": ("topologyManagerScope", "topologyManagerPolicyOptions"),
    "memoryManagerPolicy": ("reservedMemory",),
}
"""Policy → the fields that belong to it, and do not outlive it."""
_OPTIONS = frozenset(name for names in GOVERNED.values() for name in names)
PATIENCE = 10.0
"""Seconds of CPU time that an admission may take the kubelet."""
MEMORY_GATE = "MemoryManager"
POLICY = {TRAINING: RESTRICTED, INFERENCE: RESTRICTED, LATENCY: SINGLE}
SCOPE = {TRAINING: "pod", INFERENCE: "container", LATENCY: "pod"}
POLICY_WHY = {
    TRAINING: "A pod gets CPUs, memory and devices of the same NUMA nodes, as few as can hold it, or is "
    "refused. Jobs that need several NUMA nodes still fit.",
    INFERENCE: "A container gets CPUs, memory and devices of the same NUMA nodes, as few as can hold it, or "
    "its pod is refused.",
    LATENCY: "All that a pod has comes from one NUMA node, or it is refused; jobs larger than a NUMA node do "
    "not fit this node.",
}
SCOPE_WHY = {
    TRAINING: "Judged for the whole pod: its containers work on the same data.",
    INFERENCE: "Judged for each container: a sidecar need not be where the model is.",
    LATENCY: "Judged for the whole pod: its containers talk to each other.",
}


@dataclass(frozen=True, slots=True)
class _Choice:
    """Policies that may suit."""

    static: bool
    topology: str
    pinned: bool


@dataclass(slots=True)
class _Reasons:
    """Why a policy is not the one that the goal calls for."""

    cpu: str = ""
    topology: str = ""
    memory: str = ""
    remarks: list[str] = field(default_factory=list)


def plan_kubelet(
    machine: Machine,
    goal: PlanGoal,
    hardware: Hardware | None = None,
    own: Mapping[str, object] | None = None,
) -> KubeletPlan:
    """A configuration for the machine; ``hardware``: what more is known of it; ``own``: the node's today."""
    own = own or {}
    machine = with_pages(machine, goal.hugepages)
    reasons = _Reasons()
    isolated = hardware.host.isolated or 0 if hardware is not None and hardware.host else 0
    cpus = _reserved_cpus(machine, goal, isolated, reasons)
    refused = ""
    for choice in _choices(machine, goal, reasons, static=cpus is not None):
        options = options_for(
            machine,
            goal.goal,
            goal.version,
            static=choice.static,
            topology=choice.topology,
            alpha=goal.alpha,
        )
        memory = reserve_memory(machine, goal.memory, pinned=choice.pinned)
        entries = tuple(_with_own(_entries(goal, choice, options, cpus, memory, reasons, own), own))
        kept = _kept({entry.name for entry in entries}, own)
        node = boot(machine, {**plain(entries), **kept}, Files(), version=goal.version)
        if isinstance(node, Refusal):
            refused = refused or node.message
            _give_up(reasons, choice, f"this kubelet refuses it here: {node.message}")
            continue
        trial = try_out(node, goal.version)
        if trial.seconds > PATIENCE:
            _give_up(reasons, choice, f"an admission would take the kubelet {duration(trial.seconds)}")
            continue
        if trial.seconds:
            reasons.remarks.append(
                f"With {len(machine.numa)} NUMA nodes the kubelet needs about {duration(trial.seconds)} of "
                "CPU time for an admission; each further kind of device multiplies that."
            )
        remarks = (*options.remarks, *reasons.remarks)
        return KubeletPlan(goal, machine, entries, capacities_of(node), trial.text, remarks, kept)
    raise InputError(f"no configuration was found that starts on this machine: {refused}")


def laid_over(own: Mapping[str, object], planned: Mapping[str, object]) -> dict[str, object]:
    """A node's own configuration with planned fields over it (rule 5)."""
    fields = {name: planned[name] for name in ("apiVersion", "kind") if name in planned}
    fields |= _kept(planned, own)
    for name, value in planned.items():
        before = own.get(name)
        together = isinstance(value, Mapping) and isinstance(before, Mapping) and name not in _OPTIONS
        fields[name] = {**before, **value} if together else value  # type: ignore[dict-item]
    return fields


def _kept(planned: Collection[str], own: Mapping[str, object]) -> dict[str, object]:
    gone = {*planned, *(name for policy, names in GOVERNED.items() if policy in planned for name in names)}
    return {name: value for name, value in own.items() if name not in gone}


def _with_own(entries: Iterable[Entry], own: Mapping[str, object]) -> Iterator[Entry]:
    """The planned fields, and in those that are mappings what the node has there besides."""
    for entry in entries:
        members = laid_over(own, plain((entry,)))[entry.name]
        if isinstance(members, Mapping) and isinstance(own.get(entry.name), Mapping):
            why = {one.name: one.why for one in entry.value if isinstance(one, Entry)}  # type: ignore[union-attr]
            entry = replace(
                entry, value=tuple(Entry(name, one, why.get(name, "")) for name, one in members.items())
            )
        yield entry


def with_pages(machine: Machine, pages: Sequence[tuple[str, int]]) -> Machine:
    """The machine with so many huge pages on every NUMA node with CPUs."""
    if not pages:
        return machine
    sizes = dict(pages)
    numas = []
    for numa in machine.numa:
        if numa.id in machine.layout.numas and numa.memory:
            kept = tuple((size, count) for size, count in numa.hugepages if size not in sizes)
            numa = replace(numa, hugepages=(*kept, *sizes.items()))
            if room(numa) < numa.memory // 8:
                raise InputError(
                    f"NUMA node {numa.id} with {Quantity.of(numa.memory)} is too small for these pages",
                    field="--hugepages",
                    advice="an eighth of the memory must be left",
                )
        numas.append(numa)
    return replace(machine, numa=tuple(numas))


# --- what may suit --------------------------------------------------------------------------


def _reserved_cpus(machine: Machine, goal: PlanGoal, isolated: int, reasons: _Reasons) -> PlannedCpus | None:
    layout = machine.layout
    if len(layout.cores) < 2:
        reasons.cpu = "One core is all there is: none can be reserved and another given away."
        return None
    if uneven(layout):
        reasons.cpu = (
            "Cores differ in their threads here (some are offline, or there are two kinds of core): the "
            "kubelet judges them by the average, and would hand out CPUs that are reserved or taken. Switch "
            "SMT off or on altogether to have CPUs given exclusively."
        )
        return None
    return reserve_cpus(layout, goal.cpus, isolated)


def _choices(machine: Machine, goal: PlanGoal, reasons: _Reasons, *, static: bool) -> Iterator[_Choice]:
    """Policies from the best to none (rule 2)."""
    count = len(machine.numa)
    pinned = _may_pin(machine, goal, reasons)
    if count == 1:
        reasons.topology = "There is one NUMA node, so there is nothing to align."
        reasons.memory = reasons.memory or "There is one NUMA node, so memory cannot be on a wrong one."
        yield _Choice(static, NONE, pinned=False)
        return
    policy = POLICY[goal.goal]
    if pinned:
        yield _Choice(static, policy, pinned=True)
    yield _Choice(static, policy, pinned=False)
    if pinned and count <= _most_masks():
        yield _Choice(static, NONE, pinned=True)
    yield _Choice(static, NONE, pinned=False)


def _most_masks() -> int:
    """NUMA nodes up to which the Memory Manager can look at all sets of them in time."""
    return next(count for count in range(64) if 2 ** (count + 1) * PER_MASK > PATIENCE)


def _may_pin(machine: Machine, goal: PlanGoal, reasons: _Reasons) -> bool:
    if not behaviour_of(goal.version).has_memory_manager:
        reasons.memory = f"{shown(goal.version)} has no Memory Manager."
    elif not _memory_gate(goal)[0]:
        reasons.memory = f"The Memory Manager is alpha in {shown(goal.version)} (--alpha uses it)."
    elif not any(numa.memory for numa in machine.numa):
        reasons.memory = "How much memory the NUMA nodes have is not known."
    elif not may_pin(machine):
        least = Quantity.of(LEAST_CAPACITY)
        reasons.memory = f"There is too little memory to pin: less than {least}, or all of it in huge pages."
    else:
        return True
    return False


def _memory_gate(goal: PlanGoal) -> tuple[bool, bool]:
    """Whether the Memory Manager may be used, and whether its gate must be set for that."""
    gate = gates_of(goal.version).get(MEMORY_GATE)
    if gate is None or gate.default:
        return True, False
    return goal.alpha, goal.alpha


def _give_up(reasons: _Reasons, choice: _Choice, why: str) -> None:
    if choice.pinned and choice.topology != NONE:
        reasons.memory = f"Not Static: together with {choice.topology}, {why}."
    elif choice.topology != NONE:
        reasons.topology = f"Not {choice.topology}: {why}."
    else:
        reasons.memory = f"Not Static: {why}."


# --- lines ----------------------------------------------------------------------------------


def _entries(
    goal: PlanGoal,
    choice: _Choice,
    options: Options,
    cpus: PlannedCpus | None,
    memory: PlannedMemory,
    reasons: _Reasons,
    own: Mapping[str, object],
) -> Iterator[Entry]:
    yield Entry("apiVersion", API_VERSION)
    yield Entry("kind", KIND)
    if choice.static:
        why = "Pods of the class Guaranteed that ask for whole CPUs get CPUs of their own."
        yield Entry("cpuManagerPolicy", "static", why)
        if options.cpu:
            entries = tuple(Entry(one.name, one.value, one.why) for one in options.cpu)
            yield Entry("cpuManagerPolicyOptions", entries)
        if goal.goal == LATENCY:
            why = (
                "How long a shared pod may still run on CPUs that another one was just given; 10s by default."
            )
            yield Entry("cpuManagerReconcilePeriod", "5s", why)
        assert cpus is not None
        why = f"{cpus.why} This list replaces any number of CPUs in kubeReserved and systemReserved."
        yield Entry("reservedSystemCPUs", format_ids(cpus.cpus), why)
    else:
        yield Entry("cpuManagerPolicy", "none", reasons.cpu)
    if choice.topology == NONE:
        yield Entry("topologyManagerPolicy", NONE, reasons.topology)
    else:
        yield Entry("topologyManagerPolicy", choice.topology, POLICY_WHY[goal.goal])
        yield Entry("topologyManagerScope", SCOPE[goal.goal], SCOPE_WHY[goal.goal])
        if options.topology:
            entries = tuple(Entry(one.name, one.value, one.why) for one in options.topology)
            yield Entry("topologyManagerPolicyOptions", entries)
    if behaviour_of(goal.version).has_memory_manager:
        yield from _memory(choice, memory, reasons)
    why = "" if choice.pinned else "Kept for the system and the kubelet."
    yield Entry("kubeReserved", (Entry("memory", mebi(memory.kube)),), why)
    yield Entry("systemReserved", (Entry("memory", mebi(memory.system)),))
    others, why = own.get("evictionHard"), "The memory threshold is planned; the others are the node's own."
    if not isinstance(others, Mapping):
        others = eviction.defaults(goal.version)
        why = "Naming one threshold drops the kubelet's others, so all are named."
    thresholds = {**others, "memory.available": mebi(memory.eviction)}
    yield Entry("evictionHard", tuple(Entry(name, value) for name, value in thresholds.items()), why)
    gates = dict(options.gates)
    if choice.pinned and _memory_gate(goal)[1]:
        gates[MEMORY_GATE] = f"The Memory Manager needs it in {shown(goal.version)}."
    if gates:
        yield Entry("featureGates", tuple(Entry(name, True, text) for name, text in gates.items()))


def _memory(choice: _Choice, memory: PlannedMemory, reasons: _Reasons) -> Iterator[Entry]:
    if not choice.pinned:
        yield Entry("memoryManagerPolicy", "None", reasons.memory)
        return
    yield Entry("memoryManagerPolicy", "Static", "Memory comes from the NUMA nodes of the CPUs and devices.")
    members = tuple(
        (Entry("numaNode", numa), Entry("limits", (Entry("memory", mebi(share)),)))
        for numa, share in memory.shares
    )
    why = (
        "What NUMA nodes keep for the system must add up to the reservations and the eviction threshold, to "
        f"the byte: {reservation_text(memory)}. Huge pages may not be listed here."
    )
    yield Entry("reservedMemory", members, why)


# --------------------------------------------------------------------------------------------------
# What a node can give, and a pod that is tried on it.


@dataclass(frozen=True, slots=True)
class PlanTrial:
    """A pod that was tried."""

    text: str
    seconds: float = 0.0
    """CPU time that the kubelet would need, where that is noticeable."""


def capacities_of(node: SimulatedNode) -> tuple[NumaCapacity, ...]:
    """What each NUMA node has for pods, empty as the node is."""
    machine, rules = node.machine, node.rules
    found = []
    for numa in machine.numa:
        cpus = machine.layout.numas.get(numa.id, 0) & ~rules.reserved_cpus
        books = node.state.memory.numa.get(numa.id)
        memory = books.tables["memory"].allocatable if books else room(numa)
        if books is None and len(machine.numa) == 1:
            memory -= node.settings.reservation.get("memory", Quantity()).value
        devices = tuple(
            (plugin.resource, count)
            for plugin in machine.plugins
            if (count := sum(one.numa == (numa.id,) for one in plugin.devices))
        )
        found.append(NumaCapacity(numa.id, cpus.bit_count(), memory, devices))
    return tuple(found)


def try_out(node: SimulatedNode, version: Version) -> PlanTrial:
    """Admit a pod that has its share of everything, one device of each kind, and see."""
    rooms = [one for one in capacities_of(node) if one.cpus]
    best = max(rooms, key=lambda one: (len(one.devices), one.cpus), default=None)
    if best is None:
        return PlanTrial("there are no CPUs to give")
    many = max((count for _, count in best.devices), default=2)
    threads = max(1, node.machine.layout.threads_per_core)
    cpus = max(threads, best.cpus // many // threads * threads)
    memory = max(MEBI, best.memory // many // MEBI * MEBI)
    if memory > GIBI:
        memory = memory // GIBI * GIBI
    limits = {"cpu": Quantity.of(cpus), "memory": Quantity.of(memory).canonical()}
    limits |= {resource: Quantity.of(1) for resource, _ in best.devices}
    raw = RawPod("trial", "trial", (RawContainer("main", Role.APP, limits, limits),))
    trial = boot(node.machine, node.config, Files(), version=version)
    assert isinstance(trial, SimulatedNode)
    trial.plugins_registered(node.machine.plugins)
    steps: list[Step] = []
    decision = trial.admit(defaulted(raw), steps.append)
    seconds = max((step.seconds for step in steps if isinstance(step, TooManyCombinations)), default=0.0)
    asked = f"{counted(cpus, 'CPU')} and {Quantity.of(memory)}" + "".join(
        f", 1 {name}" for name, _ in best.devices
    )
    if not isinstance(decision, Admitted):
        return PlanTrial(f"a pod with {asked} is refused: {getattr(decision, 'message', '')}", seconds)
    own = trial.state.cpu.assignments.get("trial", {}).get("main", 0)
    homes = bits_of(numa for numa, there in node.machine.layout.numas.items() if there & own)
    where = f" on NUMA {format_ids(homes)}" if homes else ""
    exclusive = f", CPUs {format_ids(own)}" if own else ""
    return PlanTrial(f"a pod with {asked} is admitted{where}{exclusive}", seconds)


def duration(seconds: float) -> str:
    """Seconds as a person says them."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.0f} hours" if seconds < 1e6 else "more than a week"
