"""Whole NUMA nodes for one job: what the engine granted, and all else that lies there.

Rules kept here are those of ``where``, 4: the nodes are free of others, so all of them can be taken, but for
the CPUs that are kept for the system.
"""

from collections.abc import Iterable, Sequence

from numawise.apps.launch.capacity import NIC_RESOURCE, nics_of
from numawise.apps.launch.decide import shared_shortage
from numawise.apps.launch.request import Exclusive, JobRequest
from numawise.apps.launch.wanted_gpus import use_remarks
from numawise.apps.launch.where import MachinePart
from numawise.machine.model import DevicePlugin
from numawise.results.placement import Capacity, Hold, MemoryPart, NoRoom, Placement, pool_of
from numawise.sets import bits_of, ids_of
from numawise.values import replace


def with_whole_nodes(
    capacity: Capacity, holds: Sequence[Hold], request: JobRequest, part: MachinePart, placement: Placement
) -> Placement | NoRoom:
    """The placement with all that its NUMA nodes have; why not, where the shared pool would suffer."""
    every = request.exclusive is Exclusive.MACHINE
    nodes = part.numa if every or request.numa is not None else _nodes(capacity, part, placement)
    cpus = capacity.cpus_of(nodes) & ~capacity.reserved
    short = shared_shortage(capacity, pool_of(capacity, holds) & ~cpus, holds)
    if short:
        return short
    devices = tuple(
        (plugin.resource, tuple(sorted(ids)))
        for plugin in capacity.machine.plugins
        if (
            ids := set(_there(plugin, nodes, every=every))
            | set(dict(placement.grant.devices).get(plugin.resource, ()))
        )
    )
    memory = tuple(
        MemoryPart(1 << node.id, node.memory)
        for node in capacity.machine.numa
        if nodes >> node.id & 1 and node.memory
    )
    mems = bits_of(node for part_ in memory for node in ids_of(part_.numa)) or placement.mems
    granted = dict(devices)
    positions = [
        at
        for at, (resource, name) in enumerate(zip(capacity.gpu_resources, capacity.gpu_ids, strict=True))
        if name in granted.get(resource, ())
    ]
    gpus = tuple(capacity.gpus[at] for at in positions)
    others = bits_of(at for at in positions if capacity.gpus[at] not in placement.gpus)
    return replace(
        placement,
        grant=replace(
            placement.grant,
            cpus=cpus,
            near=0,
            mems=mems,
            memory=memory,
            devices=tuple(sorted(devices)),
            cpu_limit=0,
        ),
        cpus=cpus,
        mems=mems,
        gpus=gpus,
        nics=nics_of(capacity, gpus, granted.get(NIC_RESOURCE, ())),
        remarks=(*placement.remarks, *use_remarks(capacity, others)),
        whole=nodes,
    )


def _nodes(capacity: Capacity, part: MachinePart, placement: Placement) -> int:
    """The NUMA nodes that the engine used."""
    nodes = capacity.numa_of(placement.grant.cpus)
    for memory in placement.grant.memory:
        nodes |= memory.numa
    granted = dict(placement.grant.devices)
    for plugin in capacity.machine.plugins:
        for device in plugin.devices:
            if device.id in granted.get(plugin.resource, ()):
                nodes |= bits_of(device.numa or ()) & part.numa
    return nodes


def _there(plugin: DevicePlugin, nodes: int, *, every: bool) -> Iterable[str]:
    """The devices on some NUMA nodes; every one, where the machine is meant."""
    return (device.id for device in plugin.devices if every or bits_of(device.numa or ()) & nodes)
