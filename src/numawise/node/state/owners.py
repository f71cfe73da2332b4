"""Who is recorded in the state files: devices with two owners or none, pods that are gone or missing."""

from collections.abc import Iterator, Sequence

from numawise.codec.checkpoint import CPU_FILE, DEVICE_FILE
from numawise.machine.model import DevicePlugin
from numawise.node.state.cpus import apart
from numawise.node.state.finding import ERROR, NOTE, WARNING, Against, Finding, cpus_word
from numawise.node.state.folder import Holder, Live, LivePod, StateFolder, holders, label
from numawise.node.state.memory_tables import amount
from numawise.request.defaults import defaulted
from numawise.request.model import Role


def device_findings(folder: StateFolder, against: Against) -> Iterator[Finding]:
    """Devices that two pods have, or that are not there."""
    file = folder.file(DEVICE_FILE)
    if file is None or file.look.devices is None:
        return
    owners: dict[tuple[str, str], Holder] = {}
    registered = file.look.devices.registered
    now = {plugin.resource: {one.id for one in plugin.devices} for plugin in _plugins(against)}
    for one in holders(folder):
        for resource, ids in one.devices:
            for name in ids:
                owner = owners.setdefault((resource, name), one)
                if apart(owner, one, against.live) and owner is not one:
                    both = f"{label(owner, against.live)} and to {label(one, against.live)}"
                    text = f"{resource} {name} belongs to {both}"
                    fix = "drop one of them: numawise state repair --drop-pod"
                    yield Finding("overlap", ERROR, DEVICE_FILE, text, fix)
            lost = sorted(set(ids) - now.get(resource, set(ids)))
            if lost:
                text = f"{resource} {', '.join(lost)} of {label(one, against.live)} is not on the machine"
                yield Finding("devices-gone", WARNING, DEVICE_FILE, text, "look at the device plugin's log")
            unlisted = sorted(set(ids) - registered.get(resource, frozenset()))
            if unlisted and not lost:
                what = f"{resource} {', '.join(unlisted)} of {label(one, against.live)}"
                text = f"{what} was not healthy when last seen"
                yield Finding("devices-gone", WARNING, DEVICE_FILE, text, "look at the device plugin's log")


def _plugins(against: Against) -> tuple[DevicePlugin, ...]:
    return against.machine.plugins if against.machine is not None else ()


def pod_findings(folder: StateFolder, against: Against) -> Iterator[Finding]:
    """Pods that are recorded and gone, or running and not recorded."""
    if against.live is None:
        return
    by_pod: dict[str, list[Holder]] = {}
    for one in holders(folder):
        if one.uid:
            by_pod.setdefault(one.uid, []).append(one)
    for uid, some in by_pod.items():
        pod = against.live.get(uid)
        if pod is None:
            fix = "the kubelet drops it when it next looks; numawise state repair --remove-stale does so now"
            yield Finding("stale-pod", WARNING, "", f"pod {uid} is gone and still holds {_held(some)}", fix)
            continue
        names = {container.name for container in pod.raw.containers}
        for one in some:
            if one.container and one.container not in names:
                text = (
                    f"{pod.name} has no container {one.container} any more, which still holds {_held([one])}"
                )
                yield Finding("stale-pod", WARNING, "", text)
    if folder.file(CPU_FILE) and folder.cpu.shared:
        yield from _unrecorded(folder, against.live)


def _held(some: Sequence[Holder]) -> str:
    parts = []
    cpus = 0
    for one in some:
        cpus |= one.cpus
    if cpus:
        parts.append(cpus_word(cpus))
    size = sum(block.size for one in some for block in one.blocks)
    if size:
        parts.append(f"{amount(size)} of memory")
    parts += [f"{resource} {', '.join(ids)}" for one in some for resource, ids in one.devices]
    return " and ".join(parts) or "nothing"


def _unrecorded(folder: StateFolder, live: Live) -> Iterator[Finding]:
    """Running pods that should have CPUs of their own and have none."""
    seen: set[int] = set()
    for pod in live.values():
        if id(pod) in seen or not pod.running:
            continue
        seen.add(id(pod))
        for name in _wanting(pod):
            if not any(name in folder.cpu.assignments.get(uid, {}) for uid in pod.uids):
                text = f"{pod.name}/{name} runs, asks for CPUs of its own, and has none recorded"
                fix = "admitted under another policy, or on another node; delete the pod to have it placed"
                yield Finding("unrecorded", NOTE, CPU_FILE, text, fix)


def _wanting(pod: LivePod) -> Iterator[str]:
    request = defaulted(pod.raw)
    if request.guaranteed and not request.pod_level:
        for container in request.containers:
            if container.whole_cpus and container.role is Role.APP:
                yield container.name
