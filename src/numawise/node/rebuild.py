"""What pods hold on a node, rebuilt where there are no state files.

Rules kept here:

1. The pods that run are admitted and started one after the other, as the kubelet admitted them.  The
   managers alone decide: that the sums sufficed is known, because the pods run.
2. Where the free amounts of each NUMA node were published, pods are placed into the rest alone: what is
   published as free stays free.  What no pod accounts for belongs to a holder without a name.
3. Where the kubelet lists what each container has (PodResources), that counts.  It lists all pods that are
   active: one that is not listed holds nothing.
4. A pod that runs and finds no place is counted with its requests, and reported: where it is is not known.
"""

from collections.abc import Iterable, Mapping, Sequence

from numawise.codec.podresources import ListedPod
from numawise.engine.admit import Admitted
from numawise.engine.cpu.allocate import collect as collect_cpus
from numawise.engine.device.allocate import NOWHERE_NUMA
from numawise.engine.device.manager import collect as collect_devices
from numawise.engine.draft import Draft
from numawise.engine.memory.allocate import collect as collect_memory
from numawise.engine.memory.tables import charge
from numawise.engine.state import Block, DeviceGrant, NodeState
from numawise.errors import SearchEnded
from numawise.node.node import SimulatedNode
from numawise.request.defaults import RawPod
from numawise.request.model import CPU, MEMORY
from numawise.sets import ids_of
from numawise.values import dataclass, field, replace

NumaAmounts = Mapping[int, Mapping[str, int]]
"""NUMA node → resource → CPUs, bytes or devices."""
FREE, NAMELESS = "(free)", "(not known)"
"""Holders that are no pods; no uid has brackets."""
HELD = "held"
"""The container of such a holder."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """How the pods of a node were placed."""

    placed: tuple[RawPod, ...] = ()
    unplaced: tuple[RawPod, ...] = ()
    """They run, and the reconstruction has no place for them."""
    nameless: NumaAmounts = field(default_factory=dict)
    """What is in use by publication and no pod accounts for."""
    scarce: NumaAmounts = field(default_factory=dict)
    """What is published as free beyond what the machine and the configuration leave."""


def admit_running(node: SimulatedNode, pods: Iterable[RawPod]) -> Rebuilt:
    """Admit the pods that run, in the order they are given (rules 1 and 4)."""
    placed: list[RawPod] = []
    unplaced: list[RawPod] = []
    judged, node.predicates = node.predicates, False
    try:
        for raw in pods:
            (placed if _admitted(node, raw) else unplaced).append(raw)
    finally:
        node.predicates = judged
    return Rebuilt(tuple(placed), tuple(unplaced))


def _admitted(node: SimulatedNode, raw: RawPod) -> bool:
    pod = node.requested(raw)
    try:
        decision = node.ask(pod)
        if isinstance(decision, Admitted):
            node.admit(pod)
            node.start(pod, decision)
            node.await_size(raw)
            return True
    except SearchEnded:
        pass
    node.run_already([raw])
    return False


def place_by_free(node: SimulatedNode, pods: Sequence[RawPod], free: NumaAmounts) -> Rebuilt:
    """Place the pods that run so that the published amounts stay free (rule 2)."""
    offered = free_amounts(node)
    kept = {
        numa: {name: min(size, offered.get(numa, {}).get(name, 0)) for name, size in own.items()}
        for numa, own in free.items()
    }
    scarce = _more(free, offered)
    hold(node, FREE, kept)
    filled = node.state
    best: tuple[Rebuilt, NodeState] | None = None
    for order in (pods, sorted(pods, key=_size, reverse=True)):
        node.keep(filled)
        rebuilt = admit_running(node, order)
        if best is None or len(rebuilt.unplaced) < len(best[0].unplaced):
            best = rebuilt, node.state
        if not rebuilt.unplaced:
            break
    assert best is not None
    rebuilt, state = best
    node.keep(state)
    release(node, FREE)
    left = free_amounts(node)
    known = {
        numa: {name: size for name, size in own.items() if name in free[numa]}
        for numa, own in left.items()
        if numa in free
    }
    nameless = _more(known, free)
    hold(node, NAMELESS, nameless)
    return replace(rebuilt, nameless=nameless, scarce=scarce)


def place_listed(node: SimulatedNode, pods: Sequence[RawPod], listed: Sequence[ListedPod]) -> Rebuilt:
    """Let the pods that run have what their kubelet lists (rule 3)."""
    by_name = {(pod.namespace, pod.name): pod for pod in pods}
    placed: list[RawPod] = []
    unplaced: list[RawPod] = []
    for one in listed:
        raw = by_name.pop((one.namespace, one.name), None)
        if raw is not None:
            node.run_already([raw])
            placed.append(raw)
        uid = raw.uid if raw is not None else f"({one.namespace}/{one.name})"
        if not _hold_listed(node, uid, one) and raw is not None:
            unplaced.append(raw)
    return Rebuilt(tuple(placed), tuple(unplaced))


def _hold_listed(node: SimulatedNode, uid: str, listed: ListedPod) -> bool:
    """Let a pod have what is listed; False when the machine or the configuration has no such thing."""
    draft, rules = Draft(node.state), node.rules
    tables = dict(draft.memory.numa)
    for name, own in listed.containers.items():
        if own.cpus & ~draft.cpu.shared or (own.cpus and not rules.cpu_static):
            return False
        if own.cpus:
            draft.cpu.shared &= ~own.cpus
            draft.cpu.assign(uid, name, own.cpus)
        for block in own.memory:
            if any(
                numa not in tables or block.type not in tables[numa].tables for numa in ids_of(block.numa)
            ):
                return False
            charge(tables, block.numa, block.type, block.size)
        if own.memory:
            draft.memory.assign(uid, name, own.memory)
        for resource, ids in own.devices.items():
            plugin = draft.devices.plugins.rows.get(resource)
            if plugin is None or not ids <= plugin.devices.keys():
                return False
            by_numa: dict[int, list[str]] = {}
            for device in sorted(ids):
                for numa in plugin.devices[device].numa or (NOWHERE_NUMA,):
                    by_numa.setdefault(numa, []).append(device)
            pairs = tuple((numa, tuple(some)) for numa, some in sorted(by_numa.items()))
            draft.devices.grant(uid, name, resource, DeviceGrant(pairs))
    draft.memory.numa = tables
    node.keep(draft.freeze())
    return True


def _size(raw: RawPod) -> int:
    """How much a pod asks for, for an order."""
    return sum(
        amount.nano for one in raw.containers for name, amount in one.requests.items() if name != MEMORY
    )


def _more(amounts: NumaAmounts, than: NumaAmounts) -> NumaAmounts:
    """By how much amounts exceed others, where they do."""
    more: dict[int, dict[str, int]] = {}
    for numa, own in amounts.items():
        for name, size in own.items():
            beyond = size - than.get(numa, {}).get(name, 0)
            if beyond > 0:
                more.setdefault(numa, {})[name] = beyond
    return more


# --- what is free ---------------------------------------------------------------------------


def free_amounts(node: SimulatedNode) -> NumaAmounts:
    """What each NUMA node has left of everything that is given out by NUMA node."""
    state, free = node.state, {}
    for numa in node.machine.numa:
        own: dict[str, int] = {}
        if node.rules.cpu_static:
            own[CPU] = _free_cpus(node, numa.id).bit_count()
        if node.rules.memory_static and numa.id in state.memory.numa:
            tables = state.memory.numa[numa.id].tables
            own |= {name: table.free for name, table in tables.items()}
        for resource in state.devices.plugins:
            own[resource] = len(_free_devices(node, resource, numa.id))
        free[numa.id] = own
    return free


def _free_cpus(node: SimulatedNode, numa: int) -> int:
    shared, rules = node.state.cpu.shared, node.rules
    return shared & node.machine.layout.numas.get(numa, 0) & ~rules.reserved_cpus


def _free_devices(node: SimulatedNode, resource: str, numa: int) -> list[str]:
    """Devices of a resource that are free and on this NUMA node alone."""
    plugin = node.state.devices.plugins[resource]
    taken = node.state.devices.allocated.get(resource, frozenset())
    return [
        name
        for name, device in plugin.devices.items()
        if name not in taken and name in plugin.healthy and device.numa == (numa,)
    ]


# --- holders --------------------------------------------------------------------------------


def hold(node: SimulatedNode, uid: str, amounts: NumaAmounts) -> None:
    """Let somebody have these amounts, of what is free; the last CPUs and devices are taken first."""
    draft = Draft(node.state)
    cpus = 0
    blocks: list[Block] = []
    grants: dict[str, dict[int, list[str]]] = {}
    tables = dict(draft.memory.numa)
    for numa, own in amounts.items():
        for name, size in own.items():
            if name == CPU:
                cpus |= _last(_free_cpus(node, numa), size)
            elif name in node.state.devices.plugins:
                devices = sorted(_free_devices(node, name, numa), reverse=True)[:size]
                grants.setdefault(name, {})[numa] = devices
            elif size and numa in tables and name in tables[numa].tables:
                blocks.append(Block(1 << numa, name, size))
                charge(tables, 1 << numa, name, size)
    if cpus:
        draft.cpu.shared &= ~cpus
        draft.cpu.assign(uid, HELD, cpus)
    if blocks:
        draft.memory.numa = tables
        draft.memory.assign(uid, HELD, tuple(blocks))
    for resource, by_numa in grants.items():
        pairs = tuple((numa, tuple(ids)) for numa, ids in by_numa.items() if ids)
        if pairs:
            draft.devices.grant(uid, HELD, resource, DeviceGrant(pairs))
    node.keep(draft.freeze())


def _last(cpus: int, count: int) -> int:
    """The highest so many of some CPUs."""
    chosen = list(ids_of(cpus))[-count:] if count else []
    return sum(1 << cpu for cpu in chosen)


def release(node: SimulatedNode, uid: str) -> None:
    """Free at once what a holder has."""
    draft = Draft(node.state)
    draft.departed |= {uid}
    collect_cpus(draft)
    collect_memory(draft)
    collect_devices(draft)
    node.keep(draft.freeze())
