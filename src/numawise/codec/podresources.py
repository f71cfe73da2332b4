"""What a kubelet's PodResources socket answers, in the JSON form that protobuf gives it.

Rules kept here:

1. A file may hold the answer to ``List``, the answer to ``GetAllocatableResources``, both in a row, or both
   below names of any kind (``{"List": …, "Allocatable": …}``).  Numbers may be text, as protobuf writes them;
   names may be spelt ``deviceIds`` or ``device_ids``.
2. A device stands once for each of its NUMA nodes.  Without a topology it has none.  One that has a topology
   without nodes is not listed by ``GetAllocatableResources`` at all.
3. The pods are those that the kubelet counts as active; before 1.34 pods that have ended are among them.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from numawise.codec.document import Document, Part, read_file, shown
from numawise.engine.state import Block
from numawise.errors import InputError
from numawise.sets import ids_of
from numawise.values import dataclass, field

PODS, DEVICES, CPUS, MEMORY = "podResources", "devices", "cpuIds", "memory"
CLAIMS = "dynamicResources"
LARGEST_CPU, LARGEST_NUMA, LARGEST_SIZE = 1 << 16, 1 << 10, 1 << 63
EXAMPLE = (
    "give what the kubelet's PodResources socket answers to List and GetAllocatableResources, as JSON; "
    "'numawise bundle' collects it"
)

Nodes = tuple[int, ...] | None
"""NUMA nodes of a device; None: it has no topology."""
DeviceNodes = Mapping[tuple[str, str], Nodes]
"""Resource and device id → NUMA nodes."""


@dataclass(frozen=True, slots=True)
class ListedClaim:
    """A claim whose devices a container has."""

    name: str
    devices: tuple[tuple[str, str, str], ...] = ()
    """Driver, pool and name of each."""


@dataclass(frozen=True, slots=True)
class ListedContainer:
    """What a container has."""

    cpus: int = 0
    """CPUs that it has alone, packed."""
    devices: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Resource → device ids."""
    memory: tuple[Block, ...] = ()
    """Memory and huge pages that the Memory Manager gave it."""
    claims: tuple[ListedClaim, ...] = ()


@dataclass(frozen=True, slots=True)
class ListedPod:
    """A pod that the kubelet listed."""

    namespace: str
    name: str
    containers: Mapping[str, ListedContainer] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PodResources:
    """Both answers, as far as they were given."""

    pods: tuple[ListedPod, ...] | None = None
    """None: ``List`` was not answered."""
    allocatable: DeviceNodes | None = None
    """None: ``GetAllocatableResources`` was not answered."""
    held: DeviceNodes = field(default_factory=dict)
    """Devices that containers have, healthy or not."""

    def numa(self, resource: str, device: str) -> tuple[bool, Nodes]:
        """Whether the NUMA nodes of a healthy device are known, and which they are (rule 2)."""
        key = (resource, device)
        for known in (self.allocatable or {}, self.held):
            if key in known:
                return True, known[key]
        return self.allocatable is not None, ()


def read_pod_resources(path: str) -> PodResources:
    """The answers in a file (rule 1)."""
    return pod_resources_of(read_file(path))


def pod_resources_of(documents: Iterable[Document]) -> PodResources:
    """The answers in documents (rule 1)."""
    pods: list[ListedPod] | None = None
    allocatable: dict[tuple[str, str], Nodes] | None = None
    held: dict[tuple[str, str], Nodes] = {}
    for document in documents:
        for part in _answers(document.root):
            value = part.mapping()
            if PODS in value or "pod_resources" in value:
                pods = [] if pods is None else pods
                for pod in _at(part, PODS).items("a list of pods"):
                    pods.append(_known_pod(pod, held))
            else:
                allocatable = {} if allocatable is None else allocatable
                for device in _at(part, DEVICES).items("a list of devices"):
                    _add_device(device, allocatable)
    if pods is None and allocatable is None:
        file = next((document.file for document in documents), "")
        raise InputError("has no answer of a PodResources socket", file=file, advice=EXAMPLE)
    return PodResources(None if pods is None else tuple(pods), allocatable, held)


def _answers(part: Part, deep: bool = True) -> Iterator[Part]:  # noqa: FBT001, FBT002
    value = part.mapping(what="an answer of the PodResources socket")
    keys = {_camel(key) for key in value}
    if keys & {PODS, DEVICES, CPUS, MEMORY}:
        yield part
    elif deep:
        for key, inner in value.items():
            if isinstance(inner, Mapping):
                if not inner:  # protobuf leaves out what is empty
                    name = PODS if "list" in key.lower() and "alloc" not in key.lower() else DEVICES
                    yield Part(part.document, (*part.steps, key), {name: []})
                else:
                    yield from _answers(part.at(key), deep=False)


MOST_REMEMBERED = 2048
_remembered: dict[int, tuple[object, ListedPod, DeviceNodes]] = {}
"""What was last read of a pod, by identity: a socket that is asked again gives the same pods."""


def _known_pod(part: Part, held: dict[tuple[str, str], Nodes]) -> ListedPod:
    known = _remembered.get(id(part.value))
    if known is None or known[0] is not part.value:
        own: dict[tuple[str, str], Nodes] = {}
        known = part.value, _pod(part, own), own
        if len(_remembered) >= MOST_REMEMBERED:
            _remembered.clear()
        _remembered[id(part.value)] = known
    held.update(known[2])
    return known[1]


def _pod(part: Part, held: dict[tuple[str, str], Nodes]) -> ListedPod:
    part.mapping(what="a pod")
    containers = {}
    for each in _at(part, "containers").items("a list of containers"):
        each.mapping(what="a container")
        devices: dict[tuple[str, str], Nodes] = {}
        for device in _at(each, DEVICES).items("a list of devices"):
            _add_device(device, devices)
        held.update(devices)
        by_resource: dict[str, set[str]] = {}
        for resource, name in devices:
            by_resource.setdefault(resource, set()).add(name)
        cpus = 0
        for cpu in _at(each, CPUS).items("a list of CPUs"):
            cpus |= 1 << _number(cpu, LARGEST_CPU)
        name = each.at("name").text()
        blocks = tuple(map(_block, _at(each, MEMORY).items("a list of memory")))
        own = {one: frozenset(ids) for one, ids in by_resource.items()}
        claims = tuple(map(_claim, _at(each, CLAIMS).items("a list of claims")))
        containers[name] = ListedContainer(cpus, own, blocks, claims)
    namespace = part.at("namespace").value
    return ListedPod("default" if namespace is None else str(namespace), part.at("name").text(), containers)


def _claim(part: Part) -> ListedClaim:
    part.mapping(what="an entry of a list of claims")
    devices = []
    for device in _at(part, "claimResources").items("a list of devices"):
        device.mapping(what="an entry of a list of devices")
        driver, pool, name = (
            str(_at(device, key).value or "") for key in ("driverName", "poolName", "deviceName")
        )
        devices.append((driver, pool, name))
    return ListedClaim(str(_at(part, "claimName").value or ""), tuple(devices))


def _block(part: Part) -> Block:
    """Memory of one type on the NUMA nodes that are listed with it."""
    part.mapping(what="an entry of a list of memory")
    nodes = _at(part, "topology").at("nodes").items("NUMA nodes")
    mask = 0
    for node in nodes:
        mask |= 1 << _number(_at(node, "ID"), LARGEST_NUMA)
    return Block(mask, _at(part, "memoryType").text(), _number(_at(part, "size"), LARGEST_SIZE))


def _add_device(part: Part, devices: dict[tuple[str, str], Nodes]) -> None:
    """Add one entry of a list of devices (rule 2)."""
    part.mapping(what="an entry of a list of devices")
    resource, topology = _at(part, "resourceName").text(), _at(part, "topology")
    nodes: Nodes = None
    if topology.value is not None:
        topology.mapping(what="a topology")
        nodes = tuple(_number(_at(node, "ID"), 1 << 31) for node in topology.at("nodes").items("NUMA nodes"))
    for each in _at(part, "deviceIds").items("a list of device ids"):
        key = (resource, each.text())
        before = devices.get(key)
        devices[key] = nodes if before is None else tuple(sorted({*before, *(nodes or ())}))


def _number(part: Part, most: int) -> int:
    """A number, or the text of one; protobuf leaves out 0."""
    value = part.value
    if value is None:
        return 0
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < len(str(most)) + 1:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise part.error(f"must be a whole number up to {most}, not {shown(part.value)}", EXAMPLE)
    return value


def _at(part: Part, name: str) -> Part:
    """The member of a name, in either spelling (rule 1)."""
    value = part.mapping()
    if name not in value:
        for key in value:
            if _camel(key).lower() == name.lower():
                return part.at(key)
    return part.at(name)


@lru_cache(maxsize=256)
def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def pod_resources_data(answers: PodResources) -> dict[str, Any]:
    """Both answers in the form that is read here: one entry per device and NUMA node."""
    data: dict[str, Any] = {}
    if answers.pods is not None:
        data["List"] = {
            PODS: [
                {
                    "namespace": pod.namespace,
                    "name": pod.name,
                    "containers": [
                        {
                            "name": name,
                            DEVICES: _entries(
                                {
                                    (resource, one): answers.held.get((resource, one))
                                    for resource, ids in own.devices.items()
                                    for one in ids
                                }
                            ),
                            CPUS: list(ids_of(own.cpus)),
                            **({MEMORY: list(map(_block_data, own.memory))} if own.memory else {}),
                        }
                        for name, own in pod.containers.items()
                    ],
                }
                for pod in answers.pods
            ]
        }
    if answers.allocatable is not None:
        data["Allocatable"] = {DEVICES: _entries(answers.allocatable)}
    return data


def _block_data(block: Block) -> dict[str, Any]:
    nodes = [{"ID": numa} for numa in ids_of(block.numa)]
    return {"memoryType": block.type, "size": str(block.size), "topology": {"nodes": nodes}}


def _entries(devices: DeviceNodes) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for (resource, name), nodes in sorted(devices.items(), key=lambda item: item[0]):
        entry: dict[str, Any] = {"resourceName": resource, "deviceIds": [name]}
        if nodes is not None:
            entry["topology"] = {"nodes": [{"ID": numa} for numa in nodes]}
        found.append(entry)
    return found
