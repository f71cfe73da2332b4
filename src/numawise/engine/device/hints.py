"""Which NUMA nodes could serve a request for devices.

Counterpart: pkg/kubelet/cm/devicemanager/topology_hints.go.

Rules kept here:

1. A device without NUMA nodes never helps a hint; one with several counts for each of them.
2. How many nodes are needed at best is judged by all devices, healthy and free or not.
3. Limits are what is asked; a name that no plugin has registered is ignored.
4. A resource that a claim backs is not left out: where a plugin has registered it too, hints are made for
   devices that the container will not get.
"""

from collections.abc import Iterable, Mapping

from numawise.engine.draft import Draft
from numawise.engine.failure import NIL, Crash
from numawise.engine.hint import NO_PREFERENCE, NOWHERE, Answer, Family, HintRule
from numawise.engine.masks import fewest_nodes
from numawise.engine.provider import Admission
from numawise.engine.sparing import Need
from numawise.engine.state import Plugin
from numawise.engine.trace import Defect
from numawise.machine.model import Device, Machine
from numawise.request.model import ContainerRequest, most_at_once
from numawise.rules.model import Rules


def is_device_resource(draft: Draft, name: str) -> bool:
    """True when some plugin stands, or stood, behind the name."""
    return name in draft.devices.plugins.rows or name in draft.devices.allocated.rows


def container_hints(admission: Admission, container: ContainerRequest) -> Answer:
    """Hints for one container, by resource."""
    draft, uid = admission.draft, admission.pod.uid
    found: dict[str, Family | None] = {}
    held = draft.devices.get(uid, container.name) or {}
    for resource, count in container.devices:
        if is_device_resource(draft, resource):
            _report_claimed(admission, container, resource)
            grant = held.get(resource)
            again = draft.devices.reusable.get(uid, {}).get(resource, frozenset[str]())
            ids = grant.ids if grant else None
            found[resource] = _hints(admission, resource, count, ids, again)
    return found


def pod_hints(admission: Admission) -> Answer:
    """Hints for a pod as a whole, by resource."""
    draft, pod = admission.draft, admission.pod
    found: dict[str, Family | None] = {}
    limits = {container.name: dict(container.devices) for container in pod.containers}
    for resource in dict.fromkeys(name for amounts in limits.values() for name in amounts):
        if is_device_resource(draft, resource):
            for container in pod.containers:
                _report_claimed(admission, container, resource)
            count = most_at_once(pod.containers, lambda c, r=resource: limits[c.name].get(r, 0))  # type: ignore[misc]
            held: frozenset[str] = frozenset()
            for grants in draft.devices.rows.get(pod.uid, {}).values():
                if resource in grants:
                    held |= grants[resource].ids
            found[resource] = _hints(admission, resource, count, held, ())
    return found


def _report_claimed(admission: Admission, container: ContainerRequest, resource: str) -> None:
    """Report hints for a resource that comes with a claim (rule 4)."""
    if resource in container.claimed and admission.rules.claims_back_resources:
        admission.note(Defect("claimed-resource-hinted", f"{resource} of container {container.name}"))


def _hints(
    admission: Admission, resource: str, count: int, held: frozenset[str] | None, again: Iterable[str]
) -> Family | None:
    machine, rules, devices = admission.machine, admission.rules, admission.draft.devices
    plugin = devices.plugins.rows.get(resource, Plugin())
    if not has_topology(rules, plugin):
        return NO_PREFERENCE
    if held:
        if len(held) != count:
            return NOWHERE
        _all_listed(rules, plugin, held)
        return family(machine, rules, plugin, held, (), count)
    available = plugin.healthy - devices.allocated.rows.get(resource, frozenset())
    if len(available.union(again)) < count:
        return NOWHERE
    _all_listed(rules, plugin, again)
    return family(machine, rules, plugin, available, again, count)


def _all_listed(rules: Rules, plugin: Plugin, names: Iterable[str]) -> None:
    """A device that is remembered, and that the plugin no longer lists, may be the end of the kubelet."""
    if rules.behaviour.vanished_devices_crash and not all(name in plugin.devices for name in names):
        raise Crash(NIL)


def has_topology(rules: Rules, plugin: Plugin) -> bool:
    """True when some device of the resource has a topology, with NUMA nodes where that is asked for."""
    if not rules.behaviour.empty_topology_is_none:
        return any(device.numa is not None for device in plugin.devices.values())
    return any(device.numa for device in plugin.devices.values())


def family(
    machine: Machine, rules: Rules, plugin: Plugin, available: Iterable[str], again: Iterable[str], count: int
) -> Family:
    """Masks that touch enough of the devices, and all those that may be used again."""
    everywhere: dict[int, int] = {}
    for device in plugin.devices.values():
        nodes = nodes_of(device)
        everywhere[nodes] = everywhere.get(nodes, 0) + 1
    hosts = 0
    for nodes in everywhere:
        hosts |= nodes & machine.numa_bits
    order: tuple[int, ...] | None = None
    if not hosts or not rules.behaviour.device_hints_over_hosting_nodes:
        hosts = machine.numa_bits
        order = tuple(numa.id for numa in machine.numa)
    touch = []
    for name in again:
        device_again = plugin.devices.get(name)
        if device_again is not None and device_again.numa is not None:
            if not nodes_of(device_again):
                return NOWHERE
            touch.append(nodes_of(device_again))
    here: dict[int, int] = {}
    for name in available:
        device_here = plugin.devices.get(name)
        if device_here is not None and device_here.numa:
            nodes = nodes_of(device_here)
            here[nodes] = here.get(nodes, 0) + 1
    return HintRule(
        nodes=hosts,
        needs=(Need(tuple(here.items()), count - len(touch)),),
        touch=tuple(touch),
        order=order,
        width=_width(hosts, everywhere, count),
    )


def nodes_of(device: Device) -> int:
    """The device's NUMA nodes, packed."""
    nodes = 0
    for numa in device.numa or ():
        if 0 <= numa < 64:
            nodes |= 1 << numa
    return nodes


def _width(hosts: int, everywhere: Mapping[int, int], count: int) -> int:
    """How many nodes the request needs when all devices are free."""
    amounts = tuple((nodes, amount) for nodes, amount in everywhere.items() if nodes)
    if all(nodes.bit_count() == 1 for nodes, _ in amounts):
        rest = count
        for width, amount in enumerate(sorted((a for n, a in amounts if n & hosts), reverse=True), 1):
            rest -= amount
            if rest <= 0:
                return width
        return 1 if count <= 0 else hosts.bit_count()
    return fewest_nodes(hosts, [Need(amounts, count)]) or hosts.bit_count()
