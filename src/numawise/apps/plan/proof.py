"""A planned pod, tried on a simulated node: whether it is admitted, where, and whether it stays together.

Rules kept here:

1. A pod is aligned as far as the node aligns: as ``results.alignment`` has it, but for fractions of a CPU,
   which helpers are left with on purpose, memory that the node does not pin, and what is not known.
2. Why it crosses NUMA nodes is explained by what one of them has at most.
3. What would do instead is tried before it is suggested.
"""

from collections.abc import Iterator, Mapping

from numawise.apps.plan.kubelet import capacities_of
from numawise.apps.plan.manifest import Share
from numawise.engine.admit import Crashed, Decision, Rejected
from numawise.errors import InputError
from numawise.explain.case import ExplainCase, case_of, decided, with_pod
from numawise.explain.change import SetAmount, with_amounts, written
from numawise.explain.growth import grown_edits
from numawise.explain.search import ChangeSearch, changes_of
from numawise.machine.hardware import GPU_RESOURCE
from numawise.machine.model import Machine
from numawise.node.node import Files, SimulatedNode, boot, simulate
from numawise.quantity import Quantity
from numawise.render.alignment import alignment_text
from numawise.request.defaults import RawPod, defaulted
from numawise.request.model import CPU, MEMORY, ContainerRequest, most_at_once
from numawise.results.alignment import FRACTION, MEMORY_POLICY, Alignment
from numawise.results.plan import NumaCapacity, Proof
from numawise.results.simulation import Simulated
from numawise.rules.check import Refusal
from numawise.rules.versions import Version
from numawise.sets import format_ids
from numawise.values import dataclass, field, replace

GIBI = 1 << 30
MOST = 256
"""Pods that are tried when counting how many fit."""


@dataclass(frozen=True, slots=True)
class ProofStage:
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


def share_of(stage: ProofStage) -> Share:
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


def prove(raw: RawPod, stage: ProofStage) -> Proof:
    """Admit the pod, and look where it is; a kind of pod is tried once."""
    kind = repr(replace(raw, uid="", name="", namespace="", owner=""))
    if kind not in stage.proofs:
        stage.proofs[kind] = _proof(raw, stage)
    return stage.proofs[kind]


def _proof(raw: RawPod, stage: ProofStage) -> Proof:
    node = stage.node()
    crosses = _crossing(raw, node)
    outcome = _admit(raw, node)
    alignment = outcome.alignment
    if alignment is None:
        words = _words(outcome.decision)
        instead = tuple(_instead(raw, stage))
        return Proof(
            admitted=False,
            aligned=False,
            text=f"refused on {stage.name}: {words}",
            crosses=crosses,
            instead=instead,
        )
    fits = 1 + _more(raw, node)
    aligned = _aligned(alignment)
    instead = () if aligned and (not crosses or _even(raw, node)) else tuple(_instead(raw, stage))
    text = alignment_text(alignment).removeprefix("Admitted")
    return Proof(
        admitted=True,
        aligned=aligned,
        text=f"admitted on {stage.name}{text}",
        alignment=alignment,
        fits=fits,
        crosses=crosses,
        instead=instead,
    )


# --- looking --------------------------------------------------------------------------------


def _admit(raw: RawPod, node: SimulatedNode) -> Simulated:
    """Admit a pod, and start it."""
    (outcome,) = simulate(node, [node.requested(raw)])
    return outcome


def _aligned(alignment: Alignment) -> bool:
    """Rule 1."""
    return all(
        one.aligned is not False or one.reasons in ((FRACTION,), (MEMORY_POLICY,))
        for one in alignment.resources
    )


def _words(decision: Decision) -> str:
    if isinstance(decision, Rejected):
        return f"{decision.reason}: {decision.message}"
    assert isinstance(decision, Crashed)
    return f"the kubelet crashes: {decision.message}"


def _more(raw: RawPod, node: SimulatedNode) -> int:
    for count in range(1, MOST):
        again = replace(raw, uid=f"{raw.uid}#{count}", name=f"{raw.name}-{count}")
        if not _admit(again, node).admitted:
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
        if asked > most > 0:
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


def _instead(raw: RawPod, stage: ProofStage) -> Iterator[str]:
    """Other amounts that are admitted and aligned (rule 3)."""
    node = stage.node()
    capacities = capacities_of(node)
    for at, container in enumerate(raw.containers):
        for resource in container.limits:
            if GPU_RESOURCE.search(resource) and "/" in resource:
                case = case_of(node, raw)
                yield from _other_counts(case, at, resource, capacities)
                yield from _wide(case, at, resource)
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
    case: ExplainCase, at: int, resource: str, capacities: tuple[NumaCapacity, ...]
) -> Iterator[str]:
    """As many GPUs as one NUMA node has, or as all of them have, with CPUs and memory in proportion."""
    asked = _needed(case.raw, resource)
    counts = [dict(capacity.devices).get(resource, 0) for capacity in capacities]
    threads = case.machine.layout.threads_per_core
    limits = case.raw.containers[at].limits
    for count in sorted({max(counts), sum(counts)} - {asked, 0}):
        cpus = max(threads, limits[CPU].value * count // asked // threads * threads)
        memory = limits[MEMORY].value * count // asked
        memory = memory // GIBI * GIBI if memory >= GIBI else memory >> 20 << 20
        amounts = {resource: count, CPU: cpus, MEMORY: memory}
        changes = [SetAmount(at, name, written(size, name)) for name, size in amounts.items()]
        other = with_pod(case, with_amounts(case.raw, changes))
        if not _homes(other):
            other = _grown(other, at) or other
        homes = _homes(other)
        if homes:
            yield f"{_amounts_text(other, at, resource)}: admitted, aligned on NUMA {format_ids(homes)}"


def _wide(case: ExplainCase, at: int, resource: str) -> Iterator[str]:
    """So many CPUs and so much memory that these need as many NUMA nodes as the GPUs do."""
    other = _grown(case, at)
    if other is not None:
        why = f"because all of it then needs {_homes(other).bit_count()} NUMA nodes"
        yield f"{_amounts_text(other, at, resource)}: admitted, {why}"


def _grown(case: ExplainCase, at: int) -> ExplainCase | None:
    """The pod with more of what needs fewer NUMA nodes than the rest, as ``why`` suggests; None: no such."""
    name = case.raw.containers[at].name
    search = ChangeSearch(case, decided(case), name, (), goal=lambda one: bool(_homes(one)))
    edits = grown_edits(search)
    return None if edits is None else with_pod(case, with_amounts(case.raw, changes_of(edits)))


def _amounts_text(case: ExplainCase, at: int, resource: str) -> str:
    limits = case.raw.containers[at].limits
    return f"{limits[resource].value} {resource}, {limits[CPU]} CPUs and {limits[MEMORY]}"


def _homes(case: ExplainCase) -> int:
    """NUMA nodes that a pod is aligned on; none when it is refused or not aligned."""
    alignment = _admit(case.raw, replace(case.node)).alignment
    if alignment is None or alignment.scattered or alignment.missing:
        return 0
    return alignment.numa.bits
