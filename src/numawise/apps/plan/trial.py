"""What a node can give, and a pod that is tried on it."""

from dataclasses import dataclass

from numawise.apps.plan.reserve import GIBI, MEBI, room
from numawise.engine.admit import Admitted
from numawise.engine.trace import Step, TooManyCombinations
from numawise.node.node import Files, Node, boot
from numawise.quantity import Quantity
from numawise.request.defaults import RawContainer, RawPod, defaulted
from numawise.request.model import Role
from numawise.rules.versions import Version
from numawise.sets import bits_of, format_ids


@dataclass(frozen=True, slots=True)
class Room:
    """What one NUMA node can give to pods."""

    numa: int
    cpus: int
    """How many, reserved ones left out."""
    memory: int
    """Bytes; of all that is there when memory is not pinned."""
    devices: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Trial:
    """A pod that was tried."""

    text: str
    seconds: float = 0.0
    """CPU time that the kubelet would need, where that is noticeable."""


def rooms_of(node: Node) -> tuple[Room, ...]:
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
        found.append(Room(numa.id, cpus.bit_count(), memory, devices))
    return tuple(found)


def try_out(node: Node, version: Version) -> Trial:
    """Admit a pod that has its share of everything, one device of each kind, and see."""
    rooms = [one for one in rooms_of(node) if one.cpus]
    best = max(rooms, key=lambda one: (len(one.devices), one.cpus), default=None)
    if best is None:
        return Trial("there are no CPUs to give")
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
    assert isinstance(trial, Node)
    trial.plugins_registered(node.machine.plugins)
    steps: list[Step] = []
    decision = trial.admit(defaulted(raw), steps.append)
    seconds = max((step.seconds for step in steps if isinstance(step, TooManyCombinations)), default=0.0)
    asked = f"{cpus} CPUs and {Quantity.of(memory)}" + "".join(f", 1 {name}" for name, _ in best.devices)
    if not isinstance(decision, Admitted):
        return Trial(f"a pod with {asked} is refused: {getattr(decision, 'message', '')}", seconds)
    own = trial.state.cpu.assignments.get("trial", {}).get("main", 0)
    homes = bits_of(numa for numa, there in node.machine.layout.numas.items() if there & own)
    where = f" on NUMA {format_ids(homes)}" if homes else ""
    exclusive = f", CPUs {format_ids(own)}" if own else ""
    return Trial(f"a pod with {asked} is admitted{where}{exclusive}", seconds)


def duration(seconds: float) -> str:
    """Seconds as a person says them."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.0f} hours" if seconds < 1e6 else "for ever"
