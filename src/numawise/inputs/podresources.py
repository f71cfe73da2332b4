"""Who still holds what is recorded, and where devices are: from all that a kubelet left or answered.

Rules kept here:

1. State files lag behind.  A pod that is gone stays in the files of the Device and the Memory Manager until
   the next pod comes, and one that was refused after its managers had allocated stays in all three; both hold
   nothing.  So a recorded pod is gone when

   - a list of all pods does not have it, or has it as ended;
   - the kubelet's PodResources socket does not list it;
   - the record of what was allocated does not have it, which has every pod that was admitted;
   - it has memory of its own and a whole number of CPUs, and the static CPU Manager has none for it.

   Where none of these can be asked, it counts as running.
2. PodResources has names and no uids.  Where only uids are known, a pod is the one whose containers have the
   same CPUs and devices; pods without any are matched by the names of their containers.
3. The NUMA nodes of a device are what its plugin reported: as PodResources shows them, else as they were
   recorded when it was handed out.  Where it lists all devices of a resource and the machine has none of
   these ids, those of the machine are the same ones by other names.
4. What the record of allocations says is what a pod has, and what it requests where no list of pods says it.
5. What a running kubelet says is held is held, whether or not a file that was read has it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from numawise.codec.allocated import allocated_by_record
from numawise.codec.checkpoint.reading import ALLOCATED_FILE, AllottedPod, Resources, allocated_manifest
from numawise.codec.document import Document
from numawise.codec.podresources import ListedPod, PodResources
from numawise.codec.workload import decode_pods
from numawise.engine.draft import Draft
from numawise.engine.memory.tables import charge
from numawise.engine.state import CpuState, DeviceFile, DeviceGrant, DeviceState
from numawise.errors import InputError, quoted
from numawise.inputs.pods import Holders
from numawise.machine.model import Device, DevicePlugin, Machine
from numawise.node.node import SimulatedNode
from numawise.node.state.folder import StateFolder, recorded_uids
from numawise.quantity import Quantity
from numawise.request.defaults import RawPod
from numawise.request.model import CPU
from numawise.values import dataclass, field, replace

if TYPE_CHECKING:
    from numawise.inputs.spec import NodeInput

SHORT = 8
RECORD_GATE = "InPlacePodVerticalScaling"
"""The gate with which the kubelet keeps a record of what it allocated."""
Names = Mapping[str, tuple[str, str]]
"""Uid → namespace and name."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that may show which pods run."""

    state: StateFolder | None = None
    pods: Sequence[RawPod] = ()
    """Pods of a list that have not ended."""
    all_pods: bool = False
    """The list has all pods of the node."""
    answers: PodResources | None = None
    static_cpus: bool = False
    names: Names = field(default_factory=dict)
    """Names of pods that are not listed, where they are known."""
    records: bool = True
    """The kubelet keeps its record of allocations; False: one that is there is left over."""

    @property
    def allocated(self) -> Mapping[str, AllottedPod] | None:
        """Uid → container → resources, by the kubelet's record; None: there is no record."""
        return self.state.allocated if self.state is not None and self.records else None


def holders_of(seen: Evidence) -> Holders:
    """Who runs, and who is gone (rule 1)."""
    listed = {pod.uid: pod for pod in seen.pods}
    allocated = seen.allocated or {}
    recorded = recorded_uids(seen.state) if seen.state is not None else ()
    names = {pod.uid: (pod.namespace, pod.name) for pod in seen.pods} | dict(seen.names)
    every = tuple(dict.fromkeys((*listed, *allocated, *recorded)))
    gone = {uid for uid in every if _is_gone(seen, uid, listed)}
    remarks: list[str] = []
    if seen.answers is not None and seen.answers.pods is not None:
        matched = _matched(seen, [uid for uid in every if uid not in gone], names)
        gone |= matched.gone
        names |= matched.names
        remarks += matched.remarks
    running = list(listed.values())
    for uid, containers in allocated.items():
        if uid not in listed and uid not in gone and containers:
            running.append(allocated_pod(uid, containers, *names.get(uid, ("default", f"pod-{uid[:SHORT]}"))))
    kept = tuple(recorded_sizes(pod, allocated) for pod in running if pod.uid not in gone)
    return Holders(kept, frozenset(gone), tuple(remarks))


def recorded_sizes(pod: RawPod, record: Mapping[str, AllottedPod]) -> RawPod:
    """A pod with what its kubelet has allocated to it, where that is recorded."""
    return allocated_by_record(pod, record[pod.uid]) if pod.uid in record else pod


def allocated_pod(uid: str, containers: AllottedPod, namespace: str, name: str) -> RawPod:
    """A pod as the record of allocations has it (rule 4)."""
    manifest = allocated_manifest(uid, containers, namespace, name)
    return decode_pods(Document(manifest, ALLOCATED_FILE))[0]


def _is_gone(seen: Evidence, uid: str, listed: Mapping[str, RawPod]) -> bool:
    """Whether anything but PodResources shows that a pod is gone (rule 1)."""
    if uid in listed:
        return False
    if seen.all_pods:
        return True
    if seen.allocated is None:
        return False
    if uid not in seen.allocated:
        return True
    state = seen.state
    if state is None or not seen.static_cpus or uid not in state.memory.assignments:
        return False
    held: CpuState = state.cpu
    recorded = held.shared and uid not in held.assignments and uid not in held.pods
    return bool(recorded) and any(map(_whole_cpus, seen.allocated[uid].values()))


def _whole_cpus(resources: Resources) -> bool:
    requests = resources.get("requests")
    amount = requests.get(CPU) if isinstance(requests, Mapping) else None
    try:
        milli = Quantity.parse(str(amount)).milli if amount is not None else 0
    except ValueError:
        return False
    return milli > 0 and milli % 1000 == 0


# --- pods of PodResources -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Matched:
    gone: frozenset[str]
    names: Names
    remarks: tuple[str, ...] = ()


def _matched(seen: Evidence, uids: Sequence[str], names: Names) -> _Matched:
    """Which of the pods PodResources lists (rule 2)."""
    assert seen.answers is not None
    left = {(pod.namespace, pod.name): pod for pod in seen.answers.pods or ()}
    gone, found = set(), dict[str, tuple[str, str]]()
    unnamed = []
    for uid in uids:
        if uid not in names:
            unnamed.append(uid)
        elif names[uid] in left:
            del left[names[uid]]
        else:
            gone.add(uid)
    idle = []
    for uid in unnamed:
        holdings = _holdings(seen.state, uid)
        if not holdings:
            idle.append(uid)
            continue
        pod = next((pod for pod in left.values() if _has(pod, holdings)), None)
        if pod is None:
            gone.add(uid)
        else:
            found[uid] = pod.namespace, pod.name
            del left[pod.namespace, pod.name]
    more, remarks = _idle(seen, idle, left)
    return _Matched(frozenset(gone | more.gone), found | dict(more.names), remarks)


def _idle(
    seen: Evidence, uids: Sequence[str], left: Mapping[tuple[str, str], ListedPod]
) -> tuple[_Matched, tuple[str, ...]]:
    """Pods without CPUs and devices of their own, by the names of their containers."""
    gone: set[str] = set()
    names: dict[str, tuple[str, str]] = {}
    remarks = []
    groups: dict[frozenset[str], list[str]] = {}
    for uid in uids:
        groups.setdefault(_container_names(seen, uid), []).append(uid)
    for containers, members in groups.items():
        pods = [pod for pod in left.values() if containers == frozenset(pod.containers)]
        if not pods:
            gone.update(members)
        elif len(pods) == len(members) == 1:
            names[members[0]] = pods[0].namespace, pods[0].name
        elif len(pods) < len(members):
            remarks.append(
                f"{len(members) - len(pods)} of {len(members)} recorded pods with containers "
                f"{', '.join(sorted(containers))} no longer run; which of them is not known, and all count"
            )
    return _Matched(frozenset(gone), names), tuple(remarks)


def _container_names(seen: Evidence, uid: str) -> frozenset[str]:
    names = set((seen.allocated or {}).get(uid, ()))
    if not names and seen.state is not None:
        names |= set(seen.state.memory.assignments.get(uid, ()))
    return frozenset(names)


Holdings = Mapping[str, tuple[int, Mapping[str, frozenset[str]]]]
"""Container → CPUs of its own, and device ids by resource."""


def _holdings(state: StateFolder | None, uid: str) -> Holdings:
    if state is None:
        return {}
    cpus, devices = state.cpu.assignments.get(uid, {}), state.devices.grants.get(uid, {})
    return {
        name: (
            cpus.get(name, 0),
            {resource: grant.ids for resource, grant in devices.get(name, {}).items() if grant.ids},
        )
        for name in (*cpus, *devices)
    }


def _has(pod: ListedPod, holdings: Holdings) -> bool:
    """Whether a pod has what is recorded; init containers that ended are not listed."""
    common = [name for name in holdings if name in pod.containers]
    return bool(common) and all(
        (pod.containers[name].cpus, dict(pod.containers[name].devices)) == holdings[name] for name in common
    )


# --- where devices are ----------------------------------------------------------------------------


def located_plugins(
    plugins: Iterable[DevicePlugin], answers: PodResources, record: DeviceFile
) -> tuple[DevicePlugin, ...]:
    """Plugins with devices where the kubelet says they are (rule 3); ``record``: the Device Manager's."""
    known = {plugin.resource: plugin for plugin in plugins}
    ids: dict[str, set[str]] = {}
    for resource, name in (*(answers.allocatable or ()), *answers.held):
        ids.setdefault(resource, set()).add(name)
    for resource, registered in record.registered.items():
        ids.setdefault(resource, set()).update(registered)
    listed = {resource for resource, _ in answers.allocatable or ()}
    found = {}
    for resource in dict.fromkeys((*known, *sorted(ids))):
        plugin = known.get(resource, DevicePlugin(resource, ()))
        devices = {device.id: device for device in plugin.devices}
        if resource in listed and devices.keys().isdisjoint(ids[resource]):
            plugin, devices = replace(plugin, preference=None), {}  # the same ones, by other names
        for name in sorted(ids.get(resource, ())):
            devices.setdefault(name, Device(name))
        if resource in ids:
            placed = [_located(resource, device, answers, record) for device in devices.values()]
            plugin = replace(plugin, devices=tuple(placed))
        found[resource] = plugin
    return tuple(found.values())


def _located(resource: str, device: Device, answers: PodResources, record: DeviceFile) -> Device:
    key = (resource, device.id)
    healthy = device.healthy
    if answers.allocatable is not None:
        listed = key in answers.allocatable
        # a healthy device is registered; one whose topology has no nodes is not listed all the same
        healthy = listed or device.id in record.registered.get(resource, ())
    is_known, numa = answers.numa(*key)
    if not is_known:
        return device
    if not healthy and key not in answers.held:
        return replace(device, healthy=False)
    return replace(device, numa=numa, healthy=healthy, numa_unknown=False)


def located(machine: Machine, answers: PodResources | None, state: StateFolder | None) -> Machine:
    """A machine with its devices where the kubelet says they are."""
    if answers is None:
        return machine
    record = state.devices if state is not None else DeviceFile()
    plugins = located_plugins(machine.plugins, answers, record)
    for plugin in plugins:
        for device in plugin.devices:
            if unknown := [numa for numa in device.numa or () if not machine.numa_bits >> numa & 1]:
                raise InputError(
                    f"{plugin.resource} device {quoted(device.id)} is on NUMA {unknown[0]}, and there is "
                    "no such NUMA node on the machine",
                    field="--pod-resources",
                    advice="give the answers of the same node",
                )
    return replace(machine, plugins=plugins)


# --- what PodResources knows and the files do not ---------------------------------------------------


MoreDevices = Mapping[str, Mapping[str, Mapping[str, frozenset[str]]]]
"""Uid → container → resource → ids."""


def held_besides(node: SimulatedNode, answers: PodResources, names: Names) -> str:
    """Let containers have what PodResources says they have and no file records (rule 5).

    Returns a sentence about it; '' when the files have everything.  ``names``: of pods that are known by uid.
    """
    state = node.state
    taken = 0
    for own in (state.cpu.pods, *state.cpu.assignments.values()):
        for mine in own.values():
            taken |= mine
    uids = {name: uid for uid, name in names.items()}
    cpus: dict[str, dict[str, int]] = {}
    devices: dict[str, dict[str, dict[str, frozenset[str]]]] = {}
    for pod in answers.pods or ():
        uid = uids.get((pod.namespace, pod.name), f"{pod.namespace}/{pod.name}")
        for name, listed in pod.containers.items():
            if node.rules.cpu_static and listed.cpus & ~taken:
                cpus.setdefault(uid, {})[name] = listed.cpus & ~taken
            for resource, ids in listed.devices.items():
                if more := ids - state.devices.allocated.get(resource, frozenset()):
                    devices.setdefault(uid, {}).setdefault(name, {})[resource] = more
    if not cpus and not devices:
        return ""
    node.keep(
        replace(
            state,
            cpu=_with_cpus(state.cpu, cpus),
            devices=_with_devices(state.devices, devices, answers),
            active={**dict.fromkeys((*cpus, *devices)), **state.active},
        )
    )
    pods = ", ".join(sorted({*cpus, *devices})[:3])
    return f"PodResources lists CPUs or devices of {pods} that no state file has; they count as taken"


def hold_listed(source: "NodeInput", kubelet: SimulatedNode) -> None:
    """Let containers have what a file of answers lists (rule 5); memory only where no state file says it."""
    answers = source.answers
    assert answers is not None
    held_besides(kubelet, answers, {pod.uid: (pod.namespace, pod.name) for pod in source.running})
    if source.state is not None or not kubelet.rules.memory_static:
        return
    draft = Draft(kubelet.state)
    tables = dict(draft.memory.numa)
    for pod in answers.pods or ():
        for name, own in pod.containers.items():
            for block in own.memory:
                charge(tables, block.numa, block.type, block.size)
            if own.memory:
                draft.memory.assign(f"{pod.namespace}/{pod.name}", name, own.memory)
    draft.memory.numa = tables
    kubelet.keep(draft.freeze())


def _with_cpus(state: CpuState, cpus: Mapping[str, Mapping[str, int]]) -> CpuState:
    assignments, shared = dict(state.assignments), state.shared
    for uid, containers in cpus.items():
        own = dict(assignments.get(uid, {}))
        for name, more in containers.items():
            own[name] = own.get(name, 0) | more
            shared &= ~more
        assignments[uid] = own
    return replace(state, shared=shared, assignments=assignments)


def _with_devices(state: DeviceState, devices: MoreDevices, answers: PodResources) -> DeviceState:
    grants, allocated = dict(state.grants), dict(state.allocated)
    for uid, containers in devices.items():
        own = {name: dict(resources) for name, resources in grants.get(uid, {}).items()}
        for name, resources in containers.items():
            for resource, ids in resources.items():
                allocated[resource] = allocated.get(resource, frozenset()) | ids
                before = own.get(name, {}).get(resource)
                by_numa: dict[int, set[str]] = {}
                for one in (*ids, *(before.ids if before is not None else ())):
                    for numa in answers.held.get((resource, one)) or (-1,):
                        by_numa.setdefault(numa, set()).add(one)
                per_numa = tuple((numa, tuple(sorted(some))) for numa, some in sorted(by_numa.items()))
                own.setdefault(name, {})[resource] = DeviceGrant(per_numa)
        grants[uid] = own
    return replace(state, grants=grants, allocated=allocated)
