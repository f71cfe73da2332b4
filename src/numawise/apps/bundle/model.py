"""What is wanted of a node and what was found there, its device plugins included."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from numawise.codec.bundle.allowed import ADDRESS
from numawise.codec.bundle.manifest import UUID, Names
from numawise.codec.document import Document, Part
from numawise.codec.kubelet.effective import by_files
from numawise.codec.kubelet.flags import Flag
from numawise.codec.podresources import PodResources
from numawise.engine.state import DeviceFile
from numawise.host.kubelet import Running
from numawise.inputs.podresources import located_plugins
from numawise.machine.hardware import Hardware, PciDevice
from numawise.machine.kubelet_view import kubelet_view
from numawise.machine.model import Device, DevicePlugin, Machine
from numawise.rules.versions import Version
from numawise.values import dataclass, field

MACHINE, CONFIG, STATE, PODS, VERSION = "machine", "configuration", "state files", "pods", "kubelet version"
POD_RESOURCES, NODE = "PodResources", "Node object"


@dataclass(frozen=True, slots=True)
class BundleRequest:
    """Where to look."""

    root: Path | None = None
    """A copy of the host's files, or where the host's root is mounted; None: this host."""
    kubelet_dir: str = ""
    kubelet_config: str = ""
    pods: tuple[str, ...] = ()
    """Files or addresses."""
    configz: str = ""
    pod_resources: str = ""
    """A file with what the kubelet's PodResources socket answers, in place of the socket."""
    node_object: str = ""
    """A file with the Node object, in place of the API server."""
    kubeconfig: str = ""
    context: str = ""
    node: str = ""
    kube: str = ""
    keep_names: bool = False

    @property
    def top(self) -> Path:
        """The root of the host."""
        return self.root or Path("/")

    @property
    def asks_cluster(self) -> bool:
        """True when the API server is to be asked."""
        return bool(self.kubeconfig or self.context)


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence about the gathering: what may stand in a bundle, and what whoever gathers may see."""

    text: str
    """Words of ours, without anything that was read."""
    path: str = ""
    """What it is about, to stand before it."""
    detail: str = ""
    """The whole sentence with everything in it, where that says more."""

    def packed(self, names: Names) -> str:
        """For a bundle."""
        return f"{names.path(self.path)} {self.text}".strip()

    @property
    def said(self) -> str:
        """For the terminal of whoever gathers."""
        return self.detail or f"{self.path} {self.text}".strip()


@dataclass(slots=True)
class Notes:
    """What is known about the gathering itself."""

    sources: dict[str, list[Note]] = field(default_factory=dict)
    absent: list[tuple[str, Note]] = field(default_factory=list)
    remarks: list[Note] = field(default_factory=list)

    def missing(self, what: str, why: str, path: str = "", detail: str = "") -> None:
        """Something could not be had."""
        self.absent.append((what, Note(why, path, detail)))

    def found(self, what: str, where: str = "", path: str = "") -> None:
        """Something was read somewhere."""
        self.sources.setdefault(what, []).append(Note(where, path))

    def remark(self, text: str, path: str = "", detail: str = "") -> None:
        """Something to know."""
        self.remarks.append(Note(text, path, detail))


@dataclass(frozen=True, slots=True)
class KubeletParts:
    """A kubelet's configuration in its parts, and where it keeps its state."""

    base: Document | None = None
    drop_ins: tuple[Document, ...] = ()
    flags: tuple[Flag, ...] = ()
    running: Running | None = None
    directory: str = "/var/lib/kubelet"
    broken: bool = False
    """Its file is missing or unreadable, so that the other parts do not show what it runs with."""

    def together(self, version: Version) -> dict[str, Any] | None:
        """What the parts result in; None when there are none, or the file is missing."""
        return None if self.broken else by_files(self.base, self.drop_ins, self.flags, version)

    @property
    def flag(self) -> Mapping[str, str]:
        """Flag → its last value."""
        return {flag.name: flag.value for flag in self.flags if flag.value is not None}


@dataclass(frozen=True, slots=True)
class Collected:
    """Everything about a node, names and all."""

    hardware: Hardware
    machine: Machine | None
    parts: KubeletParts
    configz: Mapping[str, Any] | None
    state: Mapping[str, str]
    """State file → text."""
    pods: tuple[Part, ...]
    node: str
    machine_id: str
    versions: Mapping[str, str]
    notes: Notes
    all_pods: bool = False
    """``pods`` has every pod of the node."""
    node_object: Mapping[str, Any] | None = None
    answers: PodResources | None = None
    """What the kubelet's PodResources socket answered."""


# --------------------------------------------------------------------------------------------------
# The device plugins of a node, as its kubelet knows them: by their record first, then by the hardware.
#
# Rules kept here:
#
# 1. A resource that the Device Manager's file lists has the devices that are listed there, no matter what the
#    hardware would offer.
# 2. The NUMA nodes of a device are what PodResources shows of its plugin (``inputs.podresources``), else what
#    was recorded when it was handed out, else those of the hardware with the same UUID or PCI address.  Where
#    none says, they are unknown.


Nodes = tuple[int, ...] | None


def recorded_plugins(
    record: DeviceFile, hardware: Hardware, uuids: Mapping[str, str], answers: PodResources | None = None
) -> tuple[DevicePlugin, ...]:
    """The plugins; ``uuids``: → PCI address, ``answers``: those of the PodResources socket."""
    handed_out = _handed_out(record)
    near = _near(hardware, uuids)
    plugins: list[DevicePlugin] = []
    for resource, ids in sorted(device_ids(record).items()):
        devices = []
        for one in sorted(ids):
            is_known, numa = _numa(resource, one, handed_out, near)
            devices.append(Device(one, numa, numa_unknown=not is_known))
        if devices:
            plugins.append(DevicePlugin(resource, tuple(devices)))
    return located_plugins(plugins, answers, record) if answers is not None else tuple(plugins)


def device_ids(record: DeviceFile) -> dict[str, set[str]]:
    """Every device that the file names, by resource."""
    ids: dict[str, set[str]] = {resource: set(some) for resource, some in record.registered.items()}
    for resource, one in _handed_out(record):
        ids.setdefault(resource, set()).add(one)
    return ids


def _handed_out(record: DeviceFile) -> dict[tuple[str, str], Nodes]:
    found: dict[tuple[str, str], set[int]] = {}
    for containers in record.grants.values():
        for resources in containers.values():
            for resource, grant in resources.items():
                for numa, ids in grant.per_numa:
                    for one in ids:
                        found.setdefault((resource, one), set()).add(numa)
    return {key: tuple(sorted(numa for numa in nodes if numa >= 0)) or None for key, nodes in found.items()}


def _near(hardware: Hardware, uuids: Mapping[str, str]) -> dict[str, Nodes]:
    """UUID or PCI address, in lower case → NUMA nodes."""
    found: dict[str, Nodes] = {device.address.lower(): _of(device) for device in hardware.pci}
    for uuid, address in uuids.items():
        if address.lower() in found:
            found[uuid.lower()] = found[address.lower()]
    seen = kubelet_view(hardware)
    for plugin in () if isinstance(seen, tuple) else seen.plugins:
        for device in plugin.devices:
            for key in _keys(device.id):
                found[key] = device.numa
    return found


def _numa(
    resource: str, one: str, handed_out: Mapping[tuple[str, str], Nodes], near: Mapping[str, Nodes]
) -> tuple[bool, Nodes]:
    if (resource, one) in handed_out:
        return True, handed_out[resource, one]
    for key in _keys(one):
        if key in near:
            return True, near[key]
    return False, None


def _keys(text: str) -> Iterable[str]:
    return [found.lower() for found in (*UUID.findall(text), *ADDRESS.findall(text))]


def _of(device: PciDevice) -> Nodes:
    return None if device.numa is None or device.numa < 0 else (device.numa,)
