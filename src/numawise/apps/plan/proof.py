"""A planned pod, tried on a simulated node: whether it is admitted, where, and whether it stays together.

Rules kept here:

1. A pod is aligned when the CPUs, memory and devices of each container come from one NUMA node, or, where no
   NUMA node has enough of something, from NUMA nodes that all of it was asked of.
2. Why it crosses NUMA nodes is explained by what one of them has at most.
3. What would do instead is tried before it is suggested.
"""

from collections.abc import Iterator, Mapping

from numawise.apps.plan.kubelet import capacities_of
from numawise.apps.plan.manifest import Share
from numawise.engine.admit import Admitted, Crashed, Decision, Rejected
from numawise.errors import InputError
from numawise.machine.hardware import GPU_RESOURCE
from numawise.machine.model import Machine
from numawise.node.node import Files, SimulatedNode, boot
from numawise.quantity import Quantity
from numawise.request.defaults import RawContainer, RawPod, defaulted
from numawise.request.model import CPU, MEMORY, ContainerRequest, most_at_once
from numawise.results.plan import ContainerPlace, NumaCapacity, Proof
from numawise.rules.check import Refusal
from numawise.rules.versions import Version
from numawise.sets import bits_of, format_ids
from numawise.values import dataclass, field, replace

GIBI = 1 << 30
MOST = 256
"""Pods that are tried when counting how many fit."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The node that pods are tried on."""

    machine: Machine
    config: Mapping[str, object]
    version: Version
    texts: Mapping[str, str]
    """State files."""
    name: str
    """Which node that is, for a sentence."""
    proofs: dict[str, Proof] = field(default_factory=dict, compare=False)
    """What became of each kind of pod; pods that differ in their names alone fare alike."""

    def node(self) -> SimulatedNode:
        """A kubelet that has just started."""
        node = boot(self.machine, self.config, Files(dict(self.texts)), version=self.version)
        if isinstance(node, Refusal):
            raise InputError(
                f"the kubelet would not start ({node.stage}): {node.message}", field="--kubelet-config"
            )
        node.write_files = False
        node.plugins_registered(self.machine.plugins)
        return node


def share_of(stage: Stage) -> Share:
    """What a GPU's share of the machine is, and in which multiples CPUs come."""
    node = stage.node()
    threads = stage.machine.layout.threads_per_core if node.rules.cpu_options.full_cores else 1
    shares = []
    for capacity in capacities_of(node):
        count = _gpu_count(capacity)
        if count and capacity.cpus:
            memory = capacity.memory // count
            whole = memory // GIBI * GIBI if memory >= GIBI else memory >> 20 << 20
            shares.append((capacity.cpus // count // threads * threads, whole))
    if not shares:
        return Share(threads=threads)
    return Share(max(threads, min(cpus for cpus, _ in shares)), min(size for _, size in shares), threads)


def prove(raw: RawPod, stage: Stage) -> Proof:
    """Admit the pod, and look where it is; a kind of pod is tried once."""
    kind = repr(replace(raw, uid="", name="", namespace="", owner=""))
    if kind not in stage.proofs:
        stage.proofs[kind] = _proof(raw, stage)
    return stage.proofs[kind]


def _proof(raw: RawPod, stage: Stage) -> Proof:
    missing = _missing(raw, stage)
    if missing:
        return Proof(admitted=False, aligned=False, text=missing)
    node = stage.node()
    crosses = _crossing(raw, node)
    decision, placed = _admit(raw, node)
    if not isinstance(decision, Admitted):
        words = _words(decision)
        instead = tuple(_instead(raw, stage))
        return Proof(
            admitted=False,
            aligned=False,
            text=f"refused on {stage.name}: {words}",
            crosses=crosses,
            instead=instead,
        )
    aligned = _aligned(decision, placed)
    where = "; ".join(_where(one) for one in placed if one.numa or one.devices) or "in the shared pool"
    fits = 1 + _more(raw, node)
    instead = () if aligned and (not crosses or _even(raw, node)) else tuple(_instead(raw, stage))
    return Proof(
        admitted=True,
        aligned=aligned,
        text=f"admitted on {stage.name}: {where}",
        places=placed,
        fits=fits,
        crosses=crosses,
        instead=instead,
    )


def _missing(raw: RawPod, stage: Stage) -> str:
    """Why the scheduler would not send the pod to such a machine; '' when it would."""
    offered = {plugin.resource for plugin in stage.machine.plugins}
    for container in raw.containers:
        for resource, count in container.limits.items():
            if "/" in resource and count.nano and resource not in offered:
                near = [name for name in sorted(offered) if GPU_RESOURCE.search(name)]
                has = f"; it has {', '.join(near)}" if near else ""
                return f"the machine has no {resource}{has}"
    return ""


# --- looking --------------------------------------------------------------------------------


def _admit(raw: RawPod, node: SimulatedNode) -> tuple[Decision, tuple[ContainerPlace, ...]]:
    rules = node.rules
    pod = defaulted(raw, pod_level=rules.pod_level_resources, sidecars=rules.sidecars)
    decision = node.admit(pod)
    if not isinstance(decision, Admitted):
        return decision, ()
    placed = tuple(_placed(node, raw.uid, container.name) for container in pod.containers)
    node.start(pod, decision)
    return decision, placed


def _placed(node: SimulatedNode, uid: str, name: str) -> ContainerPlace:
    state, layout = node.state, node.machine.layout
    cpus = state.cpu.assignments.get(uid, {}).get(name, 0)
    memory = 0
    for block in state.memory.assignments.get(uid, {}).get(name, ()):
        memory |= block.numa
    found = state.devices.grants.get(uid, {}).get(name, {})
    homes = bits_of(numa for grant in found.values() for numa, _ in grant.per_numa if numa >= 0)
    devices = tuple(sorted(one for grant in found.values() for one in grant.ids))
    of_cpus = bits_of(numa for numa, own in layout.numas.items() if own & cpus)
    return ContainerPlace(name, cpus, memory, devices, of_cpus | memory | homes)


def _aligned(decision: Admitted, placed: tuple[ContainerPlace, ...]) -> bool:
    """Rule 1."""
    if all(one.numa.bit_count() <= 1 for one in placed):
        return True
    hints = decision.affinity.values()
    return bool(hints) and all(hint.preferred for hint in hints)


def _where(one: ContainerPlace) -> str:
    parts = []
    if one.cpus:
        parts.append(f"CPUs {format_ids(one.cpus)}")
    if one.memory:
        parts.append(f"memory on NUMA {format_ids(one.memory)}")
    parts += one.devices
    numa = f" on NUMA {format_ids(one.numa)}" if one.numa else ""
    return f"{one.container}{numa} ({', '.join(parts)})"


def _words(decision: Decision) -> str:
    if isinstance(decision, Rejected):
        return f"{decision.reason}: {decision.message}"
    assert isinstance(decision, Crashed)
    return f"the kubelet crashes: {decision.message}"


def _more(raw: RawPod, node: SimulatedNode) -> int:
    for count in range(1, MOST):
        decision, _ = _admit(replace(raw, uid=f"{raw.uid}#{count}", name=f"{raw.name}-{count}"), node)
        if not isinstance(decision, Admitted):
            return count - 1
    return MOST - 1


# --- what one NUMA node has -----------------------------------------------------------------


def _gpu_count(capacity: NumaCapacity) -> int:
    return sum(count for resource, count in capacity.devices if GPU_RESOURCE.search(resource))


def _needed(raw: RawPod, name: str, *, one_container: bool = False) -> int:
    """The most that the pod has of a resource at one time: init containers end before the others start.

    ``one_container``: the most of any container, where each is aligned for itself.  CPUs count where they are
    exclusive.
    """

    def amount(container: ContainerRequest) -> int:
        limit = container.limits.get(name) or Quantity()
        return 0 if name == CPU and limit.milli % 1000 else limit.value

    containers = defaulted(raw).containers
    return max(map(amount, containers)) if one_container else most_at_once(containers, amount)


def _crossing(raw: RawPod, node: SimulatedNode) -> str:
    """Why the pod does not fit one NUMA node; '' when it does (rule 2)."""
    capacities = capacities_of(node)
    if len(capacities) < 2:
        return ""
    apart = not node.rules.pod_scope
    for resource in sorted({name for one in raw.containers for name in one.limits if "/" in name}):
        asked = _needed(raw, resource, one_container=apart)
        most = max((dict(capacity.devices).get(resource, 0) for capacity in capacities), default=0)
        if asked > most:
            return f"{asked} {resource} cross NUMA nodes, because none of them has more than {most}"
    cpus, memory = (_needed(raw, name, one_container=apart) for name in (CPU, MEMORY))
    most = max(capacity.cpus for capacity in capacities)
    if node.rules.cpu_static and cpus > most:
        return f"{cpus} CPUs cross NUMA nodes, because none of them has more than {most} to give"
    size = max(capacity.memory for capacity in capacities)
    if node.rules.memory_static and memory > size:
        most_text = f"none of them has more than {_rough(size)} to give"
        return f"{Quantity.of(memory)} of memory cross NUMA nodes, because {most_text}"
    return ""


def _rough(size: int) -> str:
    return str(Quantity.of(size // GIBI * GIBI if size >= GIBI else size))


# --- what would do instead ------------------------------------------------------------------


def _instead(raw: RawPod, stage: Stage) -> Iterator[str]:
    """Other amounts that are admitted and aligned (rule 3)."""
    node = stage.node()
    capacities = capacities_of(node)
    for at, container in enumerate(raw.containers):
        for resource in container.limits:
            if GPU_RESOURCE.search(resource) and "/" in resource:
                yield from _other_counts(raw, at, resource, stage, capacities)
                yield from _wide(raw, at, resource, stage, capacities)
                return


def _even(raw: RawPod, node: SimulatedNode) -> bool:
    """True when the GPUs are all that the NUMA nodes they need have."""
    for resource in {name for one in raw.containers for name in one.limits if GPU_RESOURCE.search(name)}:
        counts = sorted(
            (dict(capacity.devices).get(resource, 0) for capacity in capacities_of(node)), reverse=True
        )
        asked = _needed(raw, resource)
        if asked not in [sum(counts[:many]) for many in range(1, len(counts) + 1)]:
            return False
    return True


def _other_counts(
    raw: RawPod, at: int, resource: str, stage: Stage, capacities: tuple[NumaCapacity, ...]
) -> Iterator[str]:
    """As many GPUs as one NUMA node has, or as all of them have, with CPUs and memory in proportion."""
    asked = _needed(raw, resource)
    counts = [dict(capacity.devices).get(resource, 0) for capacity in capacities]
    threads = stage.machine.layout.threads_per_core
    limits = raw.containers[at].limits
    for count in sorted({max(counts), sum(counts)} - {asked, 0}):
        cpus = max(threads, limits[CPU].value * count // asked // threads * threads)
        memory = limits[MEMORY].value * count // asked
        memory = memory // GIBI * GIBI if memory >= GIBI else memory >> 20 << 20
        least = _least(count, resource, stage, capacities)
        other = _with(raw, at, {resource: count, CPU: max(cpus, least[0]), MEMORY: max(memory, least[1])})
        homes = _tried(other, stage)
        if homes:
            given = other.containers[at].limits
            amounts = f"{count} {resource}, {given[CPU]} CPUs and {given[MEMORY]}"
            yield f"{amounts}: admitted, aligned on NUMA {format_ids(homes)}"


def _wide(
    raw: RawPod, at: int, resource: str, stage: Stage, capacities: tuple[NumaCapacity, ...]
) -> Iterator[str]:
    """So many CPUs and so much memory that these need as many NUMA nodes as the GPUs do."""
    asked, old = _needed(raw, resource), raw.containers[at].limits
    least = _least(asked, resource, stage, capacities)
    cpus, memory = max(least[0], old[CPU].value), max(least[1], old[MEMORY].value)
    if (cpus, memory) == (old[CPU].value, old[MEMORY].value):
        return
    homes = _tried(_with(raw, at, {CPU: cpus, MEMORY: memory}), stage)
    if homes:
        what = f"{asked} {resource}, {cpus} CPUs and {Quantity.of(memory)}"
        yield f"{what}: admitted, because all of it then needs {homes.bit_count()} NUMA nodes"


def _least(count: int, resource: str, stage: Stage, capacities: tuple[NumaCapacity, ...]) -> tuple[int, int]:
    """CPUs and memory that need as many NUMA nodes as so many GPUs do; none where these need one."""
    counts = sorted((dict(capacity.devices).get(resource, 0) for capacity in capacities), reverse=True)
    needed = next((many for many in range(1, len(counts) + 1) if sum(counts[:many]) >= count), 1)
    if needed < 2:
        return 0, 0
    threads = stage.machine.layout.threads_per_core
    sizes = sorted((cpus.bit_count() for cpus in stage.machine.layout.numas.values()), reverse=True)
    cpus = -(-(sum(sizes[: needed - 1]) + 1) // threads) * threads
    memory = sum(sorted((capacity.memory for capacity in capacities), reverse=True)[: needed - 1])
    return cpus, (memory // GIBI + 1) * GIBI


def _tried(raw: RawPod, stage: Stage) -> int:
    """NUMA nodes that a pod is aligned on; none when it is refused or not aligned."""
    decision, placed = _admit(raw, stage.node())
    if not isinstance(decision, Admitted) or not _aligned(decision, placed):
        return 0
    homes = 0
    for one in placed:
        homes |= one.numa
    return homes


def _with(raw: RawPod, at: int, amounts: Mapping[str, int]) -> RawPod:
    container = raw.containers[at]
    new = {name: Quantity.parse(str(Quantity.of(value, _style(name)))) for name, value in amounts.items()}
    changed = RawContainer(
        container.name, container.role, {**container.requests, **new}, {**container.limits, **new}
    )
    every = list(raw.containers)
    every[at] = changed
    return replace(raw, containers=tuple(every))


def _style(name: str) -> str:
    return "BinarySI" if name == MEMORY else "DecimalSI"
