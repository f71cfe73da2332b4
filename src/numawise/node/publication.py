"""What a node publishes of itself, and the node that a publication describes.

Rules kept here:

1. ``published_node`` of what ``publication_of`` made decides as the node that it came from: the same verdict,
   reason and message for any next pod, the same CPUs, memory and devices.
2. Labels and taints are not published; whoever asks has them from the Node object (``describe``).
3. A zone has what a NUMA node has.  Available is what nobody has; what pods that have ended still
   hold is not available.
4. CPUs under CPU Manager ``none`` and memory under Memory Manager ``None`` are not given out by NUMA node, so
   all of them count as available; only the sums of the whole node limit them.
5. A device on several NUMA nodes is in each of their zones, one without a NUMA node is in none, as other
   exporters have it.  Capacity has every device that its plugin lists, allocatable the healthy ones.
"""

from typing import Any

from numawise.codec.hardware.nrt_write import (
    FINGERPRINT,
    FINGERPRINT_METHOD,
    ZoneAmount,
    ZoneAmounts,
    listed_policies,
    option_attributes,
    topology_document,
)
from numawise.codec.publication import attributes_of
from numawise.codec.published.node_part import config_fields
from numawise.errors import InputError, KubeletRefused
from numawise.machine.description import NodeDescription
from numawise.machine.model import Numa
from numawise.node.node import Files, SimulatedNode
from numawise.node.ruled import ruled_by
from numawise.quantity import Quantity
from numawise.request.model import CPU, HUGEPAGES, MEMORY
from numawise.results.publication import Publication
from numawise.rules.check import Refusal, Settings
from numawise.rules.model import KubeletConfig, Rules
from numawise.rules.versions import Version, profile_of, shown
from numawise.values import replace

__all__ = [
    "Publication",
    "publication_of",
    "published_node",
    "published_rules",
    "state_texts",
    "topology_object",
    "zone_amounts",
]
ALL_PODS = "all"
"""How the fingerprint of pods is made."""


def publication_of(
    node: SimulatedNode, name: str = "", *, kubelet: str = "", missing: tuple[str, ...] = ()
) -> Publication:
    """What a node publishes.

    ``name``: in the cluster; ``kubelet``: its version as it says it, else that of the release
    it is taken for; ``missing``: sentences about what could not be learnt.
    """
    return Publication(
        node=name or (node.description.name if node.description is not None else ""),
        kubelet=kubelet or f"v{shown(node.version)}",
        machine=node.machine,
        config=config_fields(node.config),
        description=_described(node.description),
        state=node.state,
        missing=missing,
    )


def _described(description: NodeDescription | None) -> NodeDescription | None:
    """What is published of a Node object (rule 2)."""
    if description is None:
        return None
    return replace(description, labels={}, labels_known=False, taints=(), unschedulable=False)


Ruled = tuple[KubeletConfig, Settings, Rules, Version]


def published_rules(publication: Publication) -> Ruled:
    """How the node decides; ``InputError``: no kubelet of that release runs like this."""
    try:
        version = profile_of(publication.kubelet).version
    except ValueError as problem:
        raise InputError(str(problem), field="kubelet") from None
    ruled = ruled_by(publication.machine, publication.config, version)
    if isinstance(ruled, Refusal):
        raise KubeletRefused(ruled.stage, ruled.message)
    return *ruled, version


def published_node(publication: Publication, ruled: Ruled | None = None) -> SimulatedNode:
    """The node, ready to be asked (rule 1); ``ruled``: how it decides, where that is known already."""
    config, settings, rules, version = ruled or published_rules(publication)
    return SimulatedNode(
        publication.machine,
        config,
        settings,
        rules,
        publication.state,
        Files(),
        version,
        write_files=False,
        description=publication.description,
    )


def state_texts(publication: Publication) -> dict[str, str]:
    """The state files that the kubelet of the node would have written, by name."""
    node = published_node(publication)
    node.files.write(node.rules, node.state)
    return dict(node.files.texts)


def topology_object(
    publication: Publication,
    *,
    fingerprint: str = "",
    method: str = ALL_PODS,
    node: SimulatedNode | None = None,
) -> dict[str, Any]:
    """The NodeResourceTopology of a node; ``node``: the one that is published, where it is at hand."""
    node = node or published_node(publication)
    attributes = option_attributes(node.config)
    if fingerprint:
        attributes |= {FINGERPRINT: fingerprint, FINGERPRINT_METHOD: method}
    attributes |= attributes_of(publication)
    policies = listed_policies(node.config)
    return topology_document(publication.node, publication.machine, zone_amounts(node), attributes, policies)


def zone_amounts(node: SimulatedNode) -> ZoneAmounts:
    """What each NUMA node has, what of it pods may get, and what nobody has (rules 3 to 5)."""
    return {numa.id: _amounts_of(node, numa) for numa in node.machine.numa}


def _amounts_of(node: SimulatedNode, numa: Numa) -> dict[str, ZoneAmount]:
    cpus, rules, state = node.machine.layout.numas.get(numa.id, 0), node.rules, node.state
    pages = {f"{HUGEPAGES}{size}": count * Quantity.parse(size).value for size, count in numa.hugepages}
    given = cpus & ~rules.reserved_cpus if rules.cpu_static else cpus
    free = given & state.cpu.shared if rules.cpu_static else given
    amounts = {CPU: ZoneAmount(cpus.bit_count(), given.bit_count(), free.bit_count())}
    sizes = {MEMORY: numa.memory, **dict(sorted(pages.items()))}
    tables = state.memory.numa[numa.id].tables if rules.memory_static and numa.id in state.memory.numa else {}
    for kind, size in sizes.items():
        if not size:
            continue
        whole = max(0, size - sum(pages.values())) if kind == MEMORY else size
        if kind in tables:
            allocatable = min(tables[kind].allocatable, size)
            amounts[kind] = ZoneAmount(size, allocatable, min(tables[kind].free, allocatable))
        else:
            amounts[kind] = ZoneAmount(size, whole, whole)
    for resource, plugin in sorted(state.devices.plugins.items()):
        here = {one.id for one in plugin.devices.values() if numa.id in (one.numa or ())}
        healthy = here & plugin.healthy
        taken = state.devices.allocated.get(resource, frozenset())
        if here:
            amounts[resource] = ZoneAmount(len(here), len(healthy), len(healthy - taken))
    return amounts
