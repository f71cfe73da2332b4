"""A NodeResourceTopology object: what an exporter publishes about a node, its machine and what is free.

Rules kept here:

1. Each zone of type ``Node`` named ``node-N`` is NUMA node N; its capacities are what the machine has
   there: CPUs, memory, huge pages, and so many devices of each other resource; its costs are the distances.
2. CPU ids, cores, sockets and device ids are not in the object.  CPUs are numbered through, NUMA node by
   NUMA node, each a core of its own, each NUMA node a socket; devices are counted.  Remarks say so.
3. ``allocatable`` is what pods may get there, ``available`` what is free; who has the rest is not in it.
   An amount that is left out is not known.  Fractions of a CPU, which nobody can have alone, are dropped.
4. The topology policy is among the attributes (``v1alpha2``) or in ``topologyPolicies`` (both versions);
   where they differ, the attributes count, because the list is deprecated.
"""

import re
from collections.abc import Mapping

from numawise.codec.document import Part
from numawise.codec.machine import MOST_CPUS, MOST_NUMA
from numawise.errors import quoted
from numawise.machine.hardware import ASSUMED, Hardware, Remark, hardware_of
from numawise.machine.model import Cpu, Device, DevicePlugin, Machine, Numa
from numawise.quantity import NANO, Quantity
from numawise.request.model import CPU, HUGEPAGES, MEMORY
from numawise.rules.model import BEST_EFFORT, NONE, RESTRICTED, SINGLE
from numawise.strconv import whole_number
from numawise.values import dataclass, field

GROUP, KIND = "topology.node.k8s.io", "NodeResourceTopology"
SOURCE = "NodeResourceTopology"
ZONE = re.compile(r"node-([0-9]+)", re.ASCII)
MOST_DEVICES = 4096
CPUS_ASSUMED = (
    "a NodeResourceTopology does not have CPU ids: CPUs are numbered NUMA node by NUMA node, each is a core "
    "of its own, and each NUMA node is a socket"
)
DEVICES_ASSUMED = "a NodeResourceTopology does not have device ids: devices are counted"


Amounts = Mapping[int, Mapping[str, int]]
"""NUMA node → resource → CPUs, bytes or devices."""
POLICIES = {"None": NONE, "BestEffort": BEST_EFFORT, "Restricted": RESTRICTED, "SingleNUMANode": SINGLE}
SCOPES = {"PodLevel": "pod", "ContainerLevel": "container", "": "container"}
LISTED_POLICY = re.compile(rf"({'|'.join(POLICIES)})({'|'.join(filter(None, SCOPES))})?", re.ASCII)
POLICY_ATTRIBUTE, SCOPE_ATTRIBUTE = "topologyManagerPolicy", "topologyManagerScope"
OPTION = "topologyManagerOption"


@dataclass(frozen=True, slots=True)
class NodeTopology:
    """What one object says."""

    node: str
    """The node's name in the cluster."""
    machine: Machine
    hardware: Hardware
    allocatable: Amounts = field(default_factory=dict)
    available: Amounts = field(default_factory=dict)
    policy: str = ""
    """The topology policy, as a kubelet's configuration spells it; '' when it is not known."""
    scope: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)


def is_topology(value: object) -> bool:
    """Whether a value is such an object, or a list of them."""
    named = isinstance(value, Mapping) and value.get("kind") in (KIND, f"{KIND}List")
    return named or bool(_items(value))


def _items(value: object) -> list[object]:
    """The objects of a ``kind: List`` that holds nothing else."""
    items = value.get("items") if isinstance(value, Mapping) else None
    if not isinstance(items, list) or not items:
        return []
    return items if all(isinstance(one, Mapping) and one.get("kind") == KIND for one in items) else []


def topologies_of(root: Part) -> list[Part]:
    """Every object of a value that ``is_topology``."""
    items = root.at("items")
    return items.items() if isinstance(items.value, list) else [root]


def read_topology(root: Part, node: str = "") -> NodeTopology:
    """Read the object, or that of ``node`` in a list of them."""
    if isinstance(root.value, Mapping) and isinstance(root.value.get("items"), list):
        root = _named(root.at("items"), node)
    zones: dict[int, Part] = {}
    for zone in root.at("zones").items("a list of zones"):
        name = zone.at("name").text()
        number = ZONE.fullmatch(name)
        if zone.at("type").value != "Node" or not number:
            continue
        if whole_number(number[1]) in zones or whole_number(number[1]) >= MOST_NUMA:
            raise zone.at("name").error(f"zone {quoted(name)} is listed twice or above node-{MOST_NUMA - 1}")
        zones[whole_number(number[1])] = zone
    if not zones:
        raise root.at("zones").error(
            "has no zone of type Node", "NUMA nodes are zones named node-0, node-1 and so on"
        )
    machine = _machine(zones)
    title = root.at("metadata", "name").value
    remarks = [Remark(ASSUMED, SOURCE, CPUS_ASSUMED)]
    if machine.plugins:
        remarks.append(Remark(ASSUMED, SOURCE, DEVICES_ASSUMED))
    title = title if isinstance(title, str) else ""
    seen = hardware_of(machine, title)
    hardware = Hardware(
        threads=seen.threads,
        numa=seen.numa,
        pci=seen.pci,
        gpus=seen.gpus,
        memory_capacity=seen.memory_capacity,
        name=title,
        sources=(SOURCE,),
        remarks=tuple(remarks),
    )
    root.at("topologyPolicies").items("a list of policies")
    attributes, policies = _attributes(root), published_policies(root)
    return NodeTopology(
        title,
        machine,
        hardware,
        _offered(zones, "allocatable"),
        _offered(zones, "available"),
        policies.policy,
        policies.scope,
        attributes,
    )


def _offered(zones: Mapping[int, Part], which: str) -> Amounts:
    """What each zone says of its resources (rule 3)."""
    offered: dict[int, dict[str, int]] = {}
    for numa, zone in sorted(zones.items()):
        own = offered.setdefault(numa, {})
        for resource in zone.at("resources").items("a list of resources"):
            part = resource.at(which)
            if part.value is not None:
                own[resource.at("name").text()] = _amount(part, whole=False)
    return offered


def _attributes(root: Part) -> dict[str, str]:
    attributes: dict[str, str] = {}
    for one in root.at("attributes").items("a list of attributes"):
        name, value = one.at("name").value, one.at("value").value
        if isinstance(name, str) and isinstance(value, str):
            attributes[name] = value
    return attributes


@dataclass(frozen=True, slots=True)
class PublishedPolicies:
    """The topology policy, in both places where an object may have it."""

    written: str = ""
    """The attribute as it is."""
    written_scope: str = ""
    listed: tuple[str, str] = ("", "")
    """Policy and scope of the deprecated list."""

    @property
    def attribute(self) -> str:
        """The attribute's policy; '' when it is not one."""
        return self.written if self.written in POLICIES.values() else ""

    @property
    def agree(self) -> bool:
        """Both places say the same; policy none has no scope in the list."""
        policy, scope = self.listed
        return policy == self.attribute and (scope == self.scope or policy == NONE)

    @property
    def policy(self) -> str:
        """The policy that counts (rule 4)."""
        return self.attribute or self.listed[0]

    @property
    def scope(self) -> str:
        """Its scope."""
        scope = (self.attribute and self.written_scope) or self.listed[1]
        return scope if scope in SCOPES.values() else "container" if self.policy else ""


def published_policies(root: Part) -> PublishedPolicies:
    """The topology policy as far as it can be read; what is not a list has none."""
    attributes = _attributes(root) if isinstance(root.at("attributes").value, list) else {}
    listed = root.at("topologyPolicies").value
    words = (
        [LISTED_POLICY.fullmatch(one) for one in listed if isinstance(one, str)]
        if isinstance(listed, list)
        else []
    )
    known = next((word for word in words if word), None)
    pair = (POLICIES[known[1]], SCOPES[known[2] or ""]) if known else ("", "")
    return PublishedPolicies(attributes.get(POLICY_ATTRIBUTE, ""), attributes.get(SCOPE_ATTRIBUTE, ""), pair)


def _named(items: Part, node: str) -> Part:
    objects = items.items()
    names = [one.at("metadata", "name").value for one in objects]
    if node:
        for name, one in zip(names, objects, strict=True):
            if name == node:
                return one
        raise items.error(f"there is no node {quoted(node)}", f"listed are {', '.join(map(str, names))}")
    if len(objects) != 1:
        known = ", ".join(map(str, names[:8])) + (" and more" if len(names) > 8 else "")
        raise items.error(f"lists {len(objects)} nodes: {known}", "name one with --node-name")
    return objects[0]


def _machine(zones: Mapping[int, Part]) -> Machine:
    cpus: list[Cpu] = []
    nodes: list[Numa] = []
    devices: dict[str, list[Device]] = {}
    for numa in sorted(zones):
        zone = zones[numa]
        memory, pages = 0, []
        count = None
        for resource in zone.at("resources").items("a list of resources"):
            name, amount = resource.at("name").text(), _amount(resource.at("capacity"))
            if name == CPU:
                count = amount
                if count > MOST_CPUS - len(cpus):
                    raise resource.at("capacity").error(f"more than {MOST_CPUS} CPUs")
            elif name == MEMORY:
                memory = amount
            elif name.startswith(HUGEPAGES):
                size = _size(resource, name)
                pages.append((str(Quantity.of(size)), amount // size))
            elif "/" in name:
                if amount > MOST_DEVICES:
                    raise resource.at("capacity").error(f"more than {MOST_DEVICES} devices")
                short = name.rpartition("/")[2]
                own = devices.setdefault(name, [])
                own += [Device(f"{short}-{numa}-{i}", (numa,)) for i in range(amount)]
        if count is None:
            raise zone.at("resources").error("does not have the resource cpu", "give its capacity")
        cpus += [Cpu(len(cpus) + i, len(cpus) + i, numa, numa) for i in range(count)]
        nodes.append(Numa(numa, memory, tuple(pages), _distances(zone, sorted(zones))))
    if not cpus:
        raise zones[min(zones)].error("no zone has CPUs")
    plugins = tuple(DevicePlugin(name, tuple(own)) for name, own in devices.items() if own)
    return Machine(cpus=tuple(cpus), numa=tuple(nodes), plugins=plugins)


def _amount(part: Part, *, whole: bool = True) -> int:
    value = part.value
    try:
        amount = Quantity.parse(str(value)) if isinstance(value, str | int) else None
    except ValueError:
        amount = None
    if amount is None or amount.nano < 0 or (whole and amount.nano % NANO):
        raise part.error(f"{quoted(value)} is not a whole amount", "write it like 32 or 256Gi")
    return amount.nano // NANO


def _size(resource: Part, name: str) -> int:
    try:
        size = Quantity.parse(name.removeprefix(HUGEPAGES)).value
    except ValueError:
        size = 0
    if size < 1:
        raise resource.at("name").error(f"{quoted(name)} is not a page size", "write it like hugepages-2Mi")
    return size


def _distances(zone: Part, order: list[int]) -> tuple[int, ...]:
    """The costs to all zones; nothing when one is missing."""
    costs: dict[int, int] = {}
    for cost in zone.at("costs").items("a list of costs"):
        number = ZONE.fullmatch(cost.at("name").text())
        if number:
            costs[whole_number(number[1])] = cost.at("value").integer(0, 1 << 31)
    return tuple(costs[i] for i in order) if costs.keys() >= set(order) else ()
