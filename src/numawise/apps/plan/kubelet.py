"""A KubeletConfiguration for a machine and a goal, with a reason for every line.

Rules kept here:

1. What comes out is started and tried: the simulated kubelet of the release must come up with it, and admit a
   pod with CPUs, memory and a device where the machine has some.
2. The strictest policy that suits the goal is tried first.  What the kubelet refuses on this machine, or
   needs longer than ``PATIENCE`` for, is given up, and why is told.
3. Nothing is set that decides nothing: on one NUMA node there is nothing to align.
4. CPUs are not given exclusively where cores differ in their threads: the kubelet judges them by the average,
   and hands out CPUs that are reserved or taken.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from numawise.apps.plan.options import INFERENCE, LATENCY, TRAINING, Options, options_for
from numawise.apps.plan.reserve import (
    LEAST_CAPACITY,
    ReservedCpus,
    ReservedMemory,
    may_pin,
    mebi,
    reserve_cpus,
    reserve_memory,
    reserved_told,
    room,
    uneven,
)
from numawise.apps.plan.trial import Room, duration, rooms_of, try_out
from numawise.codec.kubelet.config import API_VERSION, KIND
from numawise.codec.output import Entry, plain
from numawise.engine.topology.why import PER_MASK
from numawise.errors import InputError
from numawise.machine.hardware import Hardware
from numawise.machine.model import Machine
from numawise.node.node import Files, Node, boot
from numawise.quantity import Quantity
from numawise.rules import eviction
from numawise.rules.check import Refusal
from numawise.rules.gates import gates_of
from numawise.rules.model import NONE, RESTRICTED, SINGLE
from numawise.rules.versions import DEFAULT, Version, behaviour_of, shown
from numawise.sets import format_ids

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
class Wish:
    """What is wanted of a node."""

    goal: str = TRAINING
    version: Version = DEFAULT
    cpus: int | None = None
    """CPUs to reserve; None: as many as seem right."""
    memory: int | None = None
    """Bytes to reserve, eviction included."""
    alpha: bool = False
    """Options may be used that are alpha in the release."""
    hugepages: tuple[tuple[str, int], ...] = ()
    """Pages to have on every NUMA node with CPUs: size and number."""


@dataclass(frozen=True, slots=True)
class KubeletPlan:
    """A configuration, and why it is as it is."""

    wish: Wish
    machine: Machine
    entries: tuple[Entry, ...]
    node: Node
    """A simulated kubelet that has started with it."""
    rooms: tuple[Room, ...]
    trial: str
    """What was tried on it, and what came of it."""
    remarks: tuple[str, ...] = ()

    @property
    def config(self) -> dict[str, object]:
        """The configuration as plain values."""
        return plain(self.entries)


@dataclass(frozen=True, slots=True)
class _Choice:
    """Policies that may suit."""

    static: bool
    topology: str
    pinned: bool


@dataclass(slots=True)
class _Told:
    """Why something is not as one would expect."""

    cpu: str = ""
    topology: str = ""
    memory: str = ""
    remarks: list[str] = field(default_factory=list)


def plan_kubelet(machine: Machine, wish: Wish, hardware: Hardware | None = None) -> KubeletPlan:
    """A configuration for the machine; ``hardware``: what more is known of it."""
    machine = with_pages(machine, wish.hugepages)
    told = _Told()
    isolated = hardware.host.isolated or 0 if hardware is not None and hardware.host else 0
    cpus = _reserved_cpus(machine, wish, isolated, told)
    refused = ""
    for choice in _choices(machine, wish, told, static=cpus is not None):
        options = options_for(
            machine,
            wish.goal,
            wish.version,
            static=choice.static,
            aligned=choice.topology != NONE,
            alpha=wish.alpha,
        )
        memory = reserve_memory(machine, wish.memory, pinned=choice.pinned)
        entries = tuple(_entries(wish, choice, options, cpus, memory, told))
        node = boot(machine, plain(entries), Files(), version=wish.version)
        if isinstance(node, Refusal):
            refused = refused or node.message
            _give_up(told, choice, f"this kubelet refuses it here: {node.message}")
            continue
        trial = try_out(node, wish.version)
        if trial.seconds > PATIENCE:
            _give_up(told, choice, f"an admission would take the kubelet {duration(trial.seconds)}")
            continue
        if trial.seconds:
            told.remarks.append(
                f"With {len(machine.numa)} NUMA nodes the kubelet needs about {duration(trial.seconds)} of "
                "CPU time for an admission; each further kind of device multiplies that."
            )
        remarks = (*options.remarks, *told.remarks)
        return KubeletPlan(wish, machine, entries, node, rooms_of(node), trial.text, remarks)
    raise InputError(f"no configuration was found that starts on this machine: {refused}")


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
                    f"NUMA node {numa.id} with {Quantity.of(numa.memory)} has no room for these pages",
                    field="--hugepages",
                    advice="an eighth of the memory must be left",
                )
        numas.append(numa)
    return replace(machine, numa=tuple(numas))


# --- what may suit --------------------------------------------------------------------------


def _reserved_cpus(machine: Machine, wish: Wish, isolated: int, told: _Told) -> ReservedCpus | None:
    layout = machine.layout
    if len(layout.cores) < 2:
        told.cpu = "One core is all there is: none can be reserved and another given away."
        return None
    if uneven(layout):
        told.cpu = (
            "Cores differ in their threads here (some are offline, or there are two kinds of core): the "
            "kubelet judges them by the average, and would hand out CPUs that are reserved or taken. Switch "
            "SMT off or on altogether to have CPUs given exclusively."
        )
        return None
    return reserve_cpus(layout, wish.cpus, isolated)


def _choices(machine: Machine, wish: Wish, told: _Told, *, static: bool) -> Iterator[_Choice]:
    """Policies from the best to none (rule 2)."""
    count = len(machine.numa)
    pinned = _may_pin(machine, wish, told)
    if count == 1:
        told.topology = "There is one NUMA node, so there is nothing to align."
        told.memory = told.memory or "There is one NUMA node, so memory cannot be on a wrong one."
        yield _Choice(static, NONE, pinned=False)
        return
    policy = POLICY[wish.goal]
    if pinned:
        yield _Choice(static, policy, pinned=True)
    yield _Choice(static, policy, pinned=False)
    if pinned and count <= _most_masks():
        yield _Choice(static, NONE, pinned=True)
    yield _Choice(static, NONE, pinned=False)


def _most_masks() -> int:
    """NUMA nodes up to which the Memory Manager can look at all sets of them in time."""
    return next(count for count in range(64) if 2 ** (count + 1) * PER_MASK > PATIENCE)


def _may_pin(machine: Machine, wish: Wish, told: _Told) -> bool:
    if not behaviour_of(wish.version).has_memory_manager:
        told.memory = f"{shown(wish.version)} has no Memory Manager."
    elif not _memory_gate(wish)[0]:
        told.memory = f"The Memory Manager is alpha in {shown(wish.version)} (--alpha uses it)."
    elif not any(numa.memory for numa in machine.numa):
        told.memory = "How much memory the NUMA nodes have is not known."
    elif not may_pin(machine):
        least = Quantity.of(LEAST_CAPACITY)
        told.memory = f"There is too little memory to pin: less than {least}, or all of it in huge pages."
    else:
        return True
    return False


def _memory_gate(wish: Wish) -> tuple[bool, bool]:
    """Whether the Memory Manager may be used, and whether its gate must be set for that."""
    gate = gates_of(wish.version).get(MEMORY_GATE)
    if gate is None or gate.default:
        return True, False
    return wish.alpha, wish.alpha


def _give_up(told: _Told, choice: _Choice, why: str) -> None:
    if choice.pinned and choice.topology != NONE:
        told.memory = f"Not Static: together with {choice.topology}, {why}."
    elif choice.topology != NONE:
        told.topology = f"Not {choice.topology}: {why}."
    else:
        told.memory = f"Not Static: {why}."


# --- lines ----------------------------------------------------------------------------------


def _entries(
    wish: Wish,
    choice: _Choice,
    options: Options,
    cpus: ReservedCpus | None,
    memory: ReservedMemory,
    told: _Told,
) -> Iterator[Entry]:
    yield Entry("apiVersion", API_VERSION)
    yield Entry("kind", KIND)
    if choice.static:
        why = "Pods of the class Guaranteed that ask for whole CPUs get CPUs of their own."
        yield Entry("cpuManagerPolicy", "static", why)
        if options.cpu:
            entries = tuple(Entry(one.name, one.value, one.why) for one in options.cpu)
            yield Entry("cpuManagerPolicyOptions", entries)
        if wish.goal == LATENCY:
            why = (
                "How long a shared pod may still run on CPUs that another one was just given; 10s by default."
            )
            yield Entry("cpuManagerReconcilePeriod", "5s", why)
        assert cpus is not None
        why = f"{cpus.why} This list replaces any number of CPUs in kubeReserved and systemReserved."
        yield Entry("reservedSystemCPUs", format_ids(cpus.cpus), why)
    else:
        yield Entry("cpuManagerPolicy", "none", told.cpu)
    if choice.topology == NONE:
        yield Entry("topologyManagerPolicy", NONE, told.topology)
    else:
        yield Entry("topologyManagerPolicy", choice.topology, POLICY_WHY[wish.goal])
        yield Entry("topologyManagerScope", SCOPE[wish.goal], SCOPE_WHY[wish.goal])
        if options.topology:
            entries = tuple(Entry(one.name, one.value, one.why) for one in options.topology)
            yield Entry("topologyManagerPolicyOptions", entries)
    if behaviour_of(wish.version).has_memory_manager:
        yield from _memory(choice, memory, told)
    why = "" if choice.pinned else "Kept for the system and the kubelet."
    yield Entry("kubeReserved", (Entry("memory", mebi(memory.kube)),), why)
    yield Entry("systemReserved", (Entry("memory", mebi(memory.system)),))
    thresholds = {**eviction.defaults(wish.version), "memory.available": mebi(memory.eviction)}
    why = "Naming one threshold drops the kubelet's others, so all are named."
    yield Entry("evictionHard", tuple(Entry(name, value) for name, value in thresholds.items()), why)
    gates = dict(options.gates)
    if choice.pinned and _memory_gate(wish)[1]:
        gates[MEMORY_GATE] = f"The Memory Manager needs it in {shown(wish.version)}."
    if gates:
        yield Entry("featureGates", tuple(Entry(name, True, text) for name, text in gates.items()))


def _memory(choice: _Choice, memory: ReservedMemory, told: _Told) -> Iterator[Entry]:
    if not choice.pinned:
        yield Entry("memoryManagerPolicy", "None", told.memory)
        return
    yield Entry("memoryManagerPolicy", "Static", "Memory comes from the NUMA nodes of the CPUs and devices.")
    members = tuple(
        (Entry("numaNode", numa), Entry("limits", (Entry("memory", mebi(share)),)))
        for numa, share in memory.shares
    )
    why = (
        "What NUMA nodes keep for the system must add up to the reservations and the eviction threshold, to "
        f"the byte: {reserved_told(memory)}. Huge pages may not be listed here."
    )
    yield Entry("reservedMemory", members, why)
