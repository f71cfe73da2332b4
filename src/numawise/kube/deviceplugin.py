"""The kubelet's device plugin API, v1beta1: its messages as values, serving a resource, registering it.

Rules kept here:

1. What the kubelet asks and what it is answered are values; who answers is an ``Answering``.  Nothing here
   chooses a device.
2. A refusal is a ``CallRefused`` with a sentence, which the kubelet puts into the pod's status.  A message
   that cannot be read is refused likewise.  Neither ends the plugin.
3. A device has the NUMA nodes that it was given, node 0 among them; without any it has no topology at all.
"""

import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Protocol

from numawise.kube.grpc import CallRefused, Method, Serving, call, serve
from numawise.kube.protobuf import MAP, NUMBER, TEXT, TEXTS, TRUTH, Json, Message, Single, decoded, encoded
from numawise.values import dataclass, field

VERSION = "v1beta1"
KUBELET_SOCKET = "kubelet.sock"
FOLDER = "device-plugins"
"""Below the kubelet's directory."""
HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"
REGISTER = f"/{VERSION}.Registration/Register"
SERVICE = f"/{VERSION}.DevicePlugin"
LONGEST_ID = 63

_OPTIONS = Message({1: ("pre_start_required", TRUTH), 2: ("get_preferred_allocation_available", TRUTH)})
REGISTRATION = Message(
    {
        1: ("version", TEXT),
        2: ("endpoint", TEXT),
        3: ("resource_name", TEXT),
        4: ("options", Single(_OPTIONS)),
    }
)
_TOPOLOGY = Message({1: ("nodes", Message({1: ("ID", NUMBER)}))})
_DEVICE = Message({1: ("ID", TEXT), 2: ("health", TEXT), 3: ("topology", Single(_TOPOLOGY))})
LISTED = Message({1: ("devices", _DEVICE)})
_QUESTION = Message(
    {1: ("available_deviceIDs", TEXTS), 2: ("must_include_deviceIDs", TEXTS), 3: ("allocation_size", NUMBER)}
)
PREFERRED_REQUEST = Message({1: ("container_requests", _QUESTION)})
PREFERRED_RESPONSE = Message({1: ("container_responses", Message({1: ("deviceIDs", TEXTS)}))})
ALLOCATE_REQUEST = Message({1: ("container_requests", Message({1: ("devices_ids", TEXTS)}))})
_MOUNT = Message({1: ("container_path", TEXT), 2: ("host_path", TEXT), 3: ("read_only", TRUTH)})
_SPEC = Message({1: ("container_path", TEXT), 2: ("host_path", TEXT), 3: ("permissions", TEXT)})
_ALLOCATED = Message(
    {
        1: ("envs", MAP),
        2: ("mounts", _MOUNT),
        3: ("devices", _SPEC),
        4: ("annotations", MAP),
        5: ("cdi_devices", Message({1: ("name", TEXT)})),
    }
)
ALLOCATE_RESPONSE = Message({1: ("container_responses", _ALLOCATED)})
PRE_START_REQUEST = Message({1: ("devices_ids", TEXTS)})
EMPTY = Message()


@dataclass(frozen=True, slots=True)
class ListedDevice:
    """A device as the kubelet is told of it."""

    id: str
    healthy: bool = True
    numa: tuple[int, ...] = ()
    """None at all: no topology (rule 3)."""


@dataclass(frozen=True, slots=True)
class PreferenceQuestion:
    """Which of some devices a container had best."""

    available: tuple[str, ...]
    must: tuple[str, ...]
    size: int


@dataclass(frozen=True, slots=True)
class ContainerEdits:
    """What a container gets with its devices."""

    envs: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[tuple[str, str], ...] = ()
    """Path in the container and on the host, all read-only."""
    nodes: tuple[tuple[str, str], ...] = ()
    """Device files: path in the container and on the host."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    cdi: tuple[str, ...] = ()
    """Full CDI names."""


class Answering(Protocol):
    """Who answers for one resource."""

    def devices(self) -> AsyncGenerator[Sequence[ListedDevice]]:
        """All devices, now and after every change."""

    def preferred(self, question: PreferenceQuestion) -> Sequence[str]:
        """The devices that are preferred; none: the kubelet is to choose."""

    def allocated(self, ids: Sequence[str]) -> ContainerEdits:
        """What a container gets with these devices; ``CallRefused``: it does not get them."""


async def serve_plugin(path: str, answering: Answering) -> Serving:
    """Serve one resource at a socket."""

    async def options(_: bytes) -> bytes:
        return encoded(OPTIONS, _OPTIONS)

    async def listed(_: bytes) -> AsyncGenerator[bytes]:
        async with contextlib.aclosing(answering.devices()) as changes:
            async for devices in changes:
                yield encoded({"devices": list(map(_listed, devices))}, LISTED)

    async def preferred(raw: bytes) -> bytes:
        answers = []
        for asked in _read(raw, PREFERRED_REQUEST)["container_requests"]:
            question = PreferenceQuestion(
                tuple(asked["available_deviceIDs"]),
                tuple(asked["must_include_deviceIDs"]),
                asked.get("allocation_size", 0),
            )
            answers.append({"deviceIDs": list(answering.preferred(question))})
        return encoded({"container_responses": answers}, PREFERRED_RESPONSE)

    async def allocated(raw: bytes) -> bytes:
        asked = _read(raw, ALLOCATE_REQUEST)["container_requests"]
        edits = [_edits(answering.allocated(tuple(container["devices_ids"]))) for container in asked]
        return encoded({"container_responses": edits}, ALLOCATE_RESPONSE)

    async def nothing(_: bytes) -> bytes:
        return encoded({}, EMPTY)

    return await serve(
        path,
        (
            Method(f"{SERVICE}/GetDevicePluginOptions", options),
            Method(f"{SERVICE}/ListAndWatch", streams=listed),
            Method(f"{SERVICE}/GetPreferredAllocation", preferred),
            Method(f"{SERVICE}/Allocate", allocated),
            Method(f"{SERVICE}/PreStartContainer", nothing),
        ),
    )


OPTIONS = {"pre_start_required": False, "get_preferred_allocation_available": True}


async def register(kubelet: str, endpoint: str, resource: str, patience: float) -> None:
    """Register a resource that is served at ``endpoint``, beside the kubelet's socket.

    ``ClusterError``: the kubelet did not take it, or does not answer.
    """
    request = {"version": VERSION, "endpoint": endpoint, "resource_name": resource, "options": OPTIONS}
    await call(kubelet, REGISTER, encoded(request, REGISTRATION), patience)


def _read(raw: bytes, message: Message) -> Json:
    try:
        return decoded(raw, message)
    except ValueError as problem:
        raise CallRefused(f"the request cannot be read: {problem}") from None


def _listed(device: ListedDevice) -> Json:
    health = HEALTHY if device.healthy else UNHEALTHY
    values: Json = {"ID": device.id, "health": health}
    if device.numa:
        values["topology"] = {"nodes": [{"ID": node} for node in device.numa]}
    return values


def _edits(edits: ContainerEdits) -> Json:
    return {
        "envs": edits.envs,
        "mounts": [
            {"container_path": inside, "host_path": outside, "read_only": True}
            for inside, outside in edits.mounts
        ],
        "devices": [
            {"container_path": inside, "host_path": outside, "permissions": "rw"}
            for inside, outside in edits.nodes
        ],
        "annotations": edits.annotations,
        "cdi_devices": [{"name": name} for name in edits.cdi],
    }
