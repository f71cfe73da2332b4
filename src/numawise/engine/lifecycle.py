"""What happens to a node between admissions: containers start, pods go, plugins speak, CPUs are pushed.

Counterpart: pkg/kubelet/cm/internal_container_lifecycle.go, ``reconcileState`` of cpumanager/cpu_manager.go,
``AddContainer`` of memorymanager/memory_manager.go, and ``GetDeviceRunContainerOptions`` of
devicemanager/manager.go.
"""

from collections.abc import Iterable, Mapping

from numawise.engine.cpu import allocate as cpu
from numawise.engine.device import manager as device
from numawise.engine.device.hints import is_device_resource
from numawise.engine.draft import Draft
from numawise.engine.hint import ANY, Hint
from numawise.engine.memory import allocate as memory
from numawise.engine.provider import Admission, Pick, hands_on, lowest
from numawise.engine.state import NodeState, Plugin
from numawise.engine.trace import Note, ignore
from numawise.machine.model import Device, DevicePlugin, Machine
from numawise.request.model import PodRequest, Role
from numawise.rules.model import Rules
from numawise.values import dataclass, replace


@dataclass(frozen=True, slots=True)
class Started:
    """What a container is created with."""

    uid: str
    container: str
    cpus: int = 0
    """CPUs it may run on; none: not limited."""
    mems: int | None = None
    """NUMA nodes its memory must come from; None: not set."""
    error: str = ""
    """Why it could not start."""


def start_containers(
    machine: Machine,
    rules: Rules,
    state: NodeState,
    pod: PodRequest,
    affinity: Mapping[str, Hint],
    note: Note = ignore,
    pick: Pick = lowest,
) -> tuple[NodeState, tuple[Started, ...]]:
    """Start the containers of an admitted pod, one after the other.

    Finished init containers give their memory back when the next container starts; their CPUs stay.
    Devices that were not handed out at admission are chosen now.
    """
    draft = Draft(state)
    admission = Admission(machine, rules, draft, pod, note, pick)
    started = []
    earlier: list[str] = []
    for container in pod.containers:
        held = draft.devices.get(pod.uid, container.name) or {}
        wanted = (name for name, count in container.devices if count and is_device_resource(draft, name))
        if any(name not in held for name in wanted):
            failure = device.allocate(admission, container, affinity.get(container.name, ANY).mask)
            if failure:
                started.append(Started(pod.uid, container.name, error=failure.error))
                if container.role is not Role.APP:
                    break
                continue  # only init containers, sidecars among them, keep those after them waiting
        cpus = draft.cpu.get(pod.uid, container.name)
        mems = 0
        for block in draft.memory.get(pod.uid, container.name) or ():
            mems |= block.numa
        given = draft.cpu.shared if cpus is None else cpus
        started.append(Started(pod.uid, container.name, given, mems or None))
        if cpus is not None and rules.cpu_static:
            draft.cpu.pushed.assign(pod.uid, container.name, cpus)
        for name in earlier:
            if draft.memory.get(pod.uid, name) is not None:
                memory.release(draft.memory, pod.uid, name)
        if hands_on(rules, container) and rules.behaviour.init_memory_reused:
            earlier.append(container.name)
        if container.role is not Role.INIT:
            draft.running |= {(pod.uid, container.name)}
    return draft.freeze(), tuple(started)


def remove(state: NodeState, *uids: str) -> NodeState:
    """Pods have ended; what they had is collected later."""
    draft = Draft(state)
    for uid in uids:
        if uid in draft.active.rows:
            draft.goes(uid)
    return draft.freeze()


def reconcile(rules: Rules, state: NodeState) -> tuple[NodeState, tuple[Started, ...]]:
    """One pass of the CPU Manager's loop: collect, then push CPU sets to running containers."""
    if not rules.cpu_static:
        return state, ()
    draft = Draft(state)
    behaviour = rules.behaviour
    cpu.collect(draft, spared=draft.last_pod if behaviour.last_pod_outlives_reconcile else "")
    pushes = []
    for uid, pod in draft.active.rows.items():
        for container in pod.containers if pod else ():
            if (uid, container.name) not in draft.running:
                continue
            own = draft.cpu.get(uid, container.name)
            cpus = draft.cpu.shared if own is None else own
            known = draft.cpu.pushed.get(uid, container.name) == cpus and behaviour.pushes_only_changes
            if cpus and not known:
                pushes.append(Started(uid, container.name, cpus))
                draft.cpu.pushed.assign(uid, container.name, cpus)
    return draft.freeze(), tuple(pushes)


def plugins_spoke(state: NodeState, plugins: Iterable[DevicePlugin]) -> NodeState:
    """Device plugins registered or sent new device lists; each message replaces the old list."""
    draft = Draft(state)
    for plugin in plugins:
        known = Plugin(preference=plugin.preference, refuses_several=plugin.refuses_several)
        _replace_devices(draft, plugin.resource, plugin.devices, known)
    return draft.freeze()


def devices_changed(state: NodeState, resource: str, devices: Iterable[Device]) -> NodeState:
    """A connected plugin sent a new device list."""
    draft = Draft(state)
    known = draft.devices.plugins.rows.get(resource, Plugin())
    _replace_devices(draft, resource, devices, known)
    return draft.freeze()


def _replace_devices(draft: Draft, resource: str, devices: Iterable[Device], known: Plugin) -> None:
    by_id = {one.id: one for one in devices}
    healthy = frozenset(name for name, one in by_id.items() if one.healthy)
    plugin = replace(known, devices=by_id, healthy=healthy, connected=True)
    draft.devices.plugins.put(resource, plugin)
    draft.devices.save()
