"""All that is recorded of a node beside its machine and its pods: matched, or named.

Rules kept here:

1. State files are matched by ``node.state.matching``; zones of a NodeResourceTopology by their NUMA nodes and
   resources; recorded pods with those that run.
2. What is published of a NUMA node and exceeds what the machine has there nobody can place: no answer rests
   on it.
"""

from collections.abc import Iterator, Sequence

from numawise.codec.bundle.archive import is_bundle
from numawise.inputs.pods import read_live
from numawise.inputs.spec import NodeInput, NodeSpec, not_who, read_node, read_release
from numawise.machine.hardware import Hardware
from numawise.machine.model import DevicePlugin, Machine
from numawise.node.state.folder import Against, Live, StateFolder, recorded_uids
from numawise.node.state.matching import mapped, maybe_whole, natural, unmatched_entries
from numawise.node.state.memory_tables import machine_tables
from numawise.request.model import CPU, MEMORY
from numawise.results.state import Unmatched, some
from numawise.sets import ids_of
from numawise.values import dataclass, replace


def unmatched_parts(node: NodeInput) -> tuple[Unmatched, ...]:
    """What is named (rule 1)."""
    machine = _machine(node)
    parts: list[Unmatched] = []
    if node.state is not None:
        parts += unmatched_entries(node.state, machine)
    if machine is not None and node.published is not None:
        parts += _zones(node, machine)
    if machine is not None and node.answers is not None:
        parts += _listed(node, machine)
    parts += _pods(node)
    return tuple(parts)


def _machine(node: NodeInput) -> Machine | None:
    """The machine; None where none is named, or too little of it is known for a kubelet."""
    named = node.machine_input
    if named is None and (node.bundle is None or not node.bundle.has_machine):
        return None
    return None if named is not None and named.missing else node.machine


def _zones(node: NodeInput, machine: Machine) -> Iterator[Unmatched]:
    """Zones, and resources of zones, that the machine does not have."""
    assert node.published is not None
    offered = {CPU, MEMORY, *(plugin.resource for plugin in machine.plugins)}
    offered |= {f"hugepages-{size}" for numa in machine.numa for size, _ in numa.hugepages}
    known = {numa.id for numa in machine.numa}
    lost = []
    for numa, own in sorted(node.published.available.items()):
        if numa not in known:
            lost.append(f"NUMA {numa}")
        else:
            here = {plugin.resource: _count_on(plugin, numa) for plugin in machine.plugins}
            here[CPU] = machine.layout.numas.get(numa, 0).bit_count()
            lost += [
                f"{name} on NUMA {numa}"
                for name, size in sorted(own.items())
                if name not in offered or size > here.get(name, size)
            ]
    if lost:
        text = f"{some(lost)} of the NodeResourceTopology {_are(lost)} not on this machine"
        advice = "give the machine of the same node"
        yield Unmatched("zone", tuple(lost), node.state_place, text, advice, len(lost), decides=True)


def _count_on(plugin: DevicePlugin, numa: int) -> int:
    return sum(numa in (device.numa or ()) for device in plugin.devices)


def _listed(node: NodeInput, machine: Machine) -> Iterator[Unmatched]:
    """What PodResources lists; devices are on the machine where it lists all (``inputs.podresources``)."""
    assert node.answers is not None
    known = machine_tables(machine, {})
    lost: dict[str, None] = {}
    listed = {resource for resource, _ in node.answers.allocatable or ()}
    there = {
        plugin.resource: [device.id for device in plugin.devices]
        for plugin in node.named_machine.machine.plugins
        if plugin.resource not in listed
    }
    held: dict[str, set[str]] = {}
    for resource, name in node.answers.held:
        if resource not in listed:
            held.setdefault(resource, set()).add(name)
    for resource, ids in sorted(held.items()):
        if resource in there or maybe_whole(resource, held, there):
            gone = ids.difference(there.get(resource, ()))
            lost |= dict.fromkeys(f"{resource} {name}" for name in sorted(gone, key=natural))
    for pod in node.answers.pods or ():
        for own in pod.containers.values():
            lost |= dict.fromkeys(f"CPU {cpu}" for cpu in ids_of(own.cpus & ~machine.layout.all))
            for block in own.memory:
                for numa in ids_of(block.numa):
                    if numa not in known or block.type not in known[numa].tables:
                        lost[f"{block.type} of NUMA {numa}"] = None
    if names := tuple(lost):
        text = f"{some(names)}, which PodResources lists, {_are(names)} not on this machine"
        advice = "give both answers of the same node"
        place = node.spec.pod_resources or node.state_place
        yield Unmatched("listed", names, place, text, advice, len(names), decides=True)


def _pods(node: NodeInput) -> Iterator[Unmatched]:
    """Pods that are recorded and run no more."""
    if node.state is None or not node.holders.gone:
        return
    recorded = (*recorded_uids(node.state), *(node.state.allocated or ()))
    gone = tuple(uid for uid in dict.fromkeys(recorded) if uid in node.holders.gone)
    if gone:
        run = "runs" if len(gone) == 1 else "run"
        text = f"{len(gone)} recorded pod{'' if len(gone) == 1 else 's'} no longer {run} ({some(gone)})"
        hold = "it holds" if len(gone) == 1 else "they hold"
        yield Unmatched("pod", gone, node.state_place, text, f"what {hold} counts as free", len(gone))


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def matched_by_number(node: NodeInput) -> NodeInput:
    """The node with the devices of its state mapped onto those of its machine."""
    machine = _machine(node)
    if node.state is None or machine is None:
        return node
    state, remarks = mapped(node.state, machine)
    return replace(node, state=replace(state, remarks=(*remarks, *state.remarks)))


# --- its state files ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StateInput:
    """State files, what they are compared with, and the hardware where that is known."""

    folder: StateFolder
    against: Against
    hardware: Hardware | None = None
    remarks: tuple[str, ...] = ()
    unmatched: tuple[Unmatched, ...] = ()


def read_state_of(spec: NodeSpec, pods: Sequence[str] = (), field: str = "--kube") -> StateInput:
    """The state files of a node with all that was named beside them; what was not named is not compared."""
    if not spec.bundle and len(spec.state) == 1 and is_bundle(spec.state[0]):
        spec = replace(spec, bundle=spec.state[0])
    if spec.bundle:
        spec = replace(spec, state=())
    profile = read_release(spec.kube, None, field) if spec.kube else None
    node = read_node(replace(spec, kube="") if profile else spec)
    if profile is not None:
        node = replace(node, profile=profile)
    if node.published is not None:
        raise not_who(node.state_place)
    if node.state is None:
        assert node.bundle is not None
        return StateInput(node.bundle.state(), Against())
    live: Live | None = None
    remarks = list(node.assumed)
    if pods:
        live, said = read_live(pods, node.name)
        remarks += said
    elif node.bundle is not None and node.bundle.pod_document() is not None:
        live = node.bundle.live()
    against = Against(
        node.machine if node.machine_input is not None else None,
        node.config if node.config_input is not None or node.publication is not None else None,
        live,
        node.version,
    )
    hardware = node.machine_input.hardware if node.machine_input is not None else None
    return StateInput(node.state, against, hardware, tuple(remarks), node.unmatched)
