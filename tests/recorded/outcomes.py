"""What becomes of a pod, as far as a kubelet's files show it: predicted by a simulated kubelet, and seen on a real one.

Both give an ``Outcome``, so that a comparison is ``==``.  What a refused pod was given before it was refused is not
part of it: that is collected at a time of the kubelet's own.  Blocks of memory are sorted: of several types, their
order is that of a Go map.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numawise.codec.checkpoint import CPU_FILE, DEVICE_FILE, MEMORY_FILE
from numawise.codec.document import Document
from numawise.codec.workload import decode_pods
from numawise.engine.admit import Admitted, Rejected
from numawise.node.node import SimulatedNode
from numawise.sets import format_ids, ids_of

PREFIX = "Pod was rejected: "
"""What the status of a pod has before the message that the kubelet's own code gave."""
MIRROR = "kubernetes.io/config.mirror"
Blocks = list[list[Any]]
"""NUMA nodes, type and bytes, each."""


@dataclass(frozen=True)
class Outcome:
    """A verdict, and what containers have."""

    reason: str = ""
    """'': admitted."""
    message: str = ""
    cpus: Mapping[str, str] = field(default_factory=dict)
    """Container → CPUs of its own."""
    memory: Mapping[str, Blocks] = field(default_factory=dict)
    devices: Mapping[str, Mapping[str, list[str]]] = field(default_factory=dict)
    """Container → resource → ids."""
    shared: str = ""
    """The shared pool after an admission."""
    listed: Mapping[str, Any] = field(default_factory=dict)
    """What PodResources says of each container."""

    def differences(self, other: "Outcome") -> list[str]:
        """What differs, field by field: ours, then the other's."""
        return [
            f"{name}: predicted {mine!r}, the kubelet: {theirs!r}"
            for name in self.__dataclass_fields__
            if (mine := getattr(self, name)) != (theirs := getattr(other, name))
        ]


def uid_of(pod: Mapping[str, Any]) -> str:
    """The uid by which a kubelet knows a pod: of a static one, that of its file."""
    metadata = pod["metadata"]
    return str((metadata.get("annotations") or {}).get(MIRROR) or metadata["uid"])


def predicted(node: SimulatedNode, manifest: Mapping[str, Any]) -> tuple[Outcome, tuple[str, ...]]:
    """What a node would make of a pod, and the uids of pods that it would end for it; the node keeps it."""
    (raw,) = decode_pods(Document(dict(manifest)))
    pod = node.requested(raw)
    decision = node.admit(pod)
    if isinstance(decision, Rejected):
        return Outcome(decision.reason, decision.message), ()
    assert isinstance(decision, Admitted), decision
    node.start(pod, decision)
    state = node.state
    cpus = {
        name: format_ids(bits)
        for name, bits in sorted(state.cpu.assignments.get(pod.uid, {}).items())
        if bits
    }
    memory = {
        name: sorted([list(ids_of(block.numa)), block.type, block.size] for block in blocks)
        for name, blocks in sorted(state.memory.assignments.get(pod.uid, {}).items())
    }
    devices = {
        name: {resource: sorted(grant.ids) for resource, grant in sorted(held.items())}
        for name, held in sorted(state.devices.grants.get(pod.uid, {}).items())
        if held
    }
    found = Outcome(
        cpus=cpus,
        memory=memory,
        devices=devices,
        shared=format_ids(state.cpu.shared),
        listed=_listed_of(manifest, cpus, memory, devices),
    )
    return found, decision.preempted


def seen(
    pod: Mapping[str, Any], files: Mapping[str, str], answers: Mapping[str, Any] | None = None
) -> Outcome:
    """What a real kubelet made of a pod: its object, the state files after it, and PodResources' answers."""
    status = pod["status"]
    if status.get("phase") == "Failed":
        return Outcome(status.get("reason") or "", (status.get("message") or "").removeprefix(PREFIX))
    uid = uid_of(pod)
    cpu, memory = (json.loads(files.get(name, "{}")) for name in (CPU_FILE, MEMORY_FILE))
    static = cpu.get("policyName") == "static"
    return Outcome(
        cpus=dict(sorted(((cpu.get("entries") or {}).get(uid) or {}).items())),
        memory={
            name: sorted([block["numaAffinity"], block["type"], block["size"]] for block in blocks)
            for name, blocks in sorted(((memory.get("entries") or {}).get(uid) or {}).items())
        },
        devices=_devices(json.loads(files.get(DEVICE_FILE, "{}")), uid),
        shared=cpu.get("defaultCpuSet", "") if static else "",
        listed=_listed(pod, answers or {}),
    )


def _devices(checkpoint: Mapping[str, Any], uid: str) -> dict[str, dict[str, list[str]]]:
    found: dict[str, dict[str, list[str]]] = {}
    for entry in (checkpoint.get("Data") or {}).get("PodDeviceEntries") or ():
        if entry["PodUID"] == uid:
            ids = sorted({name for names in entry["DeviceIDs"].values() for name in names})
            found.setdefault(entry["ContainerName"], {})[entry["ResourceName"]] = ids
    return found


# --- PodResources ---------------------------------------------------------------------------------


def _listed_of(
    manifest: Mapping[str, Any],
    cpus: Mapping[str, str],
    memory: Mapping[str, Blocks],
    devices: Mapping[str, Mapping[str, list[str]]],
) -> dict[str, Any]:
    """What PodResources has to say of containers: all but those that only come first."""
    spec = manifest["spec"]
    going = [one["name"] for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"]
    return {
        name: {
            "cpus": cpus.get(name, ""),
            "memory": sorted([block[1], block[2], block[0]] for block in memory.get(name, ())),
            "devices": {key: list(ids) for key, ids in sorted(devices.get(name, {}).items())},
        }
        for name in sorted([*going, *(one["name"] for one in spec["containers"])])
    }


def _listed(pod: Mapping[str, Any], answers: Mapping[str, Any]) -> dict[str, Any]:
    metadata = pod["metadata"]
    for entry in (answers.get("List") or {}).get("podResources") or ():
        if (entry.get("namespace"), entry.get("name")) == (metadata["namespace"], metadata["name"]):
            return {
                container["name"]: {
                    "cpus": format_ids(sum(1 << int(cpu) for cpu in container.get("cpuIds") or ())),
                    "memory": sorted(
                        [block["memoryType"], int(block["size"]), _nodes(block)]
                        for block in container.get("memory") or ()
                    ),
                    "devices": _listed_devices(container),
                }
                for container in sorted(entry.get("containers") or (), key=lambda one: str(one["name"]))
            }
    return {}


def _listed_devices(container: Mapping[str, Any]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for entry in container.get("devices") or ():
        found.setdefault(entry["resourceName"], []).extend(entry.get("deviceIds") or ())
    return {name: sorted(set(ids)) for name, ids in sorted(found.items())}


def _nodes(block: Mapping[str, Any]) -> list[int]:
    return sorted(int(node.get("ID", 0)) for node in (block.get("topology") or {}).get("nodes") or ())
