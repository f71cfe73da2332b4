"""A node on disk whose kubelet is the engine: it admits pods, writes state files and answers PodResources.

The files are written as a kubelet writes them (a new file, moved into its place), and the socket speaks gRPC
frame by frame.  What is tested reads both from outside.
"""

import contextlib
import json
import os
import shutil
import socket
import struct
import tempfile
import threading
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from numawise.codec.checkpoint import PLACES
from numawise.codec.checkpoint.reading import ALLOCATED_FILE
from numawise.codec.document import Document
from numawise.codec.workload import decode_pods
from numawise.engine.admit import Admitted
from numawise.machine.model import Device, DevicePlugin
from numawise.node.node import SimulatedNode, lasting_containers, started
from numawise.rules.versions import profile_of
from numawise.sets import ids_of
from numawise.values import replace
from tests.kube.test_podresources import frame
from tests.kube.wire import part, varint
from tests.unit.host.trees import CPU, NODE, grow

GPU = "example.com/gpu"
VERSION = "v1.36.4"
CONFIG: dict[str, Any] = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "cpuManagerPolicy": "static",
    "memoryManagerPolicy": "Static",
    "topologyManagerPolicy": "single-numa-node",
    "reservedSystemCPUs": "0-1",
    "kubeReserved": {"memory": "900Mi"},
    "evictionHard": {"memory.available": "100Mi"},
    "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1000Mi"}}],
}


def hardware(cores: int = 4, gibibytes: int = 16) -> dict[str, str | bytes | None]:
    """Two sockets, each a NUMA node of so many cores with two threads."""
    tree: dict[str, str | bytes | None] = {f"{CPU}/online": f"0-{4 * cores - 1}", f"{NODE}/online": "0-1"}
    for numa in range(2):
        first = numa * 2 * cores
        tree |= {
            f"{NODE}/node{numa}/cpulist": f"{first}-{first + 2 * cores - 1}",
            f"{NODE}/node{numa}/meminfo": f"Node {numa} MemTotal: {gibibytes << 20} kB",
            f"{NODE}/node{numa}/distance": "10 20" if numa == 0 else "20 10",
            f"{NODE}/node{numa}/hugepages/hugepages-2048kB/nr_hugepages": "0",
            f"{NODE}/node{numa}/hugepages/hugepages-1048576kB/nr_hugepages": "0",
        }
    for cpu in range(4 * cores):
        first = cpu - cpu % 2
        tree |= {
            f"{CPU}/cpu{cpu}/topology/core_id": str(cpu // 2 % cores),
            f"{CPU}/cpu{cpu}/topology/physical_package_id": str(cpu // (2 * cores)),
            f"{CPU}/cpu{cpu}/topology/thread_siblings_list": f"{first}-{first + 1}",
        }
    return tree | {
        "proc/meminfo": f"MemTotal: {2 * gibibytes << 20} kB",
        "proc/version": "Linux version 6.1.0-30-amd64 (x)",
    }


def gpus(count: int = 4) -> tuple[DevicePlugin, ...]:
    """Half of them on each NUMA node."""
    return (DevicePlugin(GPU, tuple(Device(f"gpu{n}", (n * 2 // count,)) for n in range(count))),)


def pod(
    name: str, cpu: int | str = 2, gpu: int = 0, memory: str = "64Mi", namespace: str = "default"
) -> dict[str, Any]:
    """A pod as the API server has it; guaranteed where ``cpu`` is a number."""
    own: dict[str, str] = {"cpu": str(cpu), "memory": memory, **({GPU: str(gpu)} if gpu else {})}
    resources = {"requests": own, "limits": own} if isinstance(cpu, int) else {"requests": own}
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": str(uuid.uuid5(uuid.NAMESPACE_URL, f"{namespace}/{name}")),
            "resourceVersion": "1",
        },
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "x", "resources": resources}]},
        "status": {"phase": "Running"},
    }


class PodResourcesServer:
    """A PodResources socket in a kubelet's directory; what it answers, subclasses say."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.silent = False
        self.asked = 0
        for name in ("device-plugins", "pod-resources"):
            (folder / name).mkdir(parents=True, exist_ok=True)

    def listed(self) -> bytes:
        """The message that List is answered with."""
        raise NotImplementedError

    def offered(self) -> bytes:
        """The message that GetAllocatableResources is answered with."""
        raise NotImplementedError

    def answer(self, connection: Any, request: bytes) -> None:
        self.asked += 1
        if self.silent:
            return
        message = self.listed() if b"/List" in request else self.offered()
        body = b"\0" + struct.pack(">I", len(message)) + message
        connection.sendall(frame(4, 0, b"", 0) + frame(1, 4, b"\x88"))
        for start in range(0, len(body), 16000):
            connection.sendall(frame(0, 0, body[start : start + 16000]))
        connection.sendall(frame(1, 5, b"\x88"))

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Its PodResources socket; each time it is made anew, as by another kubelet."""
        path = self.folder / "pod-resources/kubelet.sock"
        path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen()
            thread = threading.Thread(target=self._serve, args=(listener,), daemon=True)
            thread.start()
            try:
                yield
            finally:
                listener.shutdown(socket.SHUT_RDWR)
                thread.join()
                path.unlink(missing_ok=True)

    def _serve(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                request = b""
                while not request.endswith(b"\0" * 5) and (piece := connection.recv(65536)):
                    request += piece
                self.answer(connection, request)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65536):
                    pass


class NodeOnDisk(PodResourcesServer):
    """A node's files, and its kubelet."""

    def __init__(
        self,
        root: Path,
        folder: Path,
        config: Mapping[str, Any] = CONFIG,
        *,
        cores: int = 4,
        devices: int = 4,
    ) -> None:
        from numawise.host.discover import read_live  # noqa: PLC0415
        from numawise.machine.kubelet_view import kubelet_view  # noqa: PLC0415
        from numawise.machine.model import Machine  # noqa: PLC0415

        super().__init__(folder)
        self.root = root
        self.plugins = gpus(devices)
        self.pods: dict[str, dict[str, Any]] = {}
        """Those that the kubelet counts as active, by uid."""
        grow(root, hardware(cores, gibibytes=cores * 4))
        seen = kubelet_view(read_live(root), self.plugins)
        assert isinstance(seen, Machine)
        self.machine = seen
        self.configure(config)
        self.written: dict[str, str] = {}
        self.write()

    def configure(self, config: Mapping[str, Any]) -> None:
        """A kubelet with another configuration, and no pods."""
        (self.folder / "config.yaml").write_text(yaml.safe_dump(dict(config)))
        self.node: SimulatedNode = started(self.machine, dict(config), profile_of(VERSION).version)
        self.node.predicates = True

    def admit(self, value: dict[str, Any], *, write: bool = True) -> bool:
        """A pod comes; whether the kubelet takes it."""
        (raw,) = decode_pods(Document(value, "pod"))
        request = self.node.requested(raw)
        decision = self.node.admit(request)
        if not isinstance(decision, Admitted):
            return False
        self.node.start(request, decision)
        running = self.node.state.running | lasting_containers([request])
        self.node.keep(replace(self.node.state, running=running))
        self.pods[value["metadata"]["uid"]] = value
        if write:
            self.write()
        return True

    def remove(self, value: Mapping[str, Any]) -> None:
        """A pod is gone; as with a real kubelet, its entries stay until somebody collects them."""
        uid = value["metadata"]["uid"]
        del self.pods[uid]
        self.node.remove(uid)
        self.write()

    def write(self) -> None:
        """The files that changed, each moved into its place."""
        for name, text in self.node.files.texts.items():
            if self.written.get(name) != text:
                self.put(PLACES[name][0], text)
                self.written[name] = text
        record = self.allotted()
        if self.written.get(ALLOCATED_FILE) != record:
            self.put(ALLOCATED_FILE, record)
            self.written[ALLOCATED_FILE] = record

    def allotted(self) -> str:
        """The record of what was allocated, as kubelets from 1.33 on keep it."""
        entries = {
            uid: {
                "ContainerResources": {one["name"]: one["resources"] for one in value["spec"]["containers"]}
            }
            for uid, value in self.pods.items()
        }
        return json.dumps({"data": json.dumps({"entries": entries}), "checksum": 0})

    def put(self, name: str, text: str) -> None:
        """A file of any content."""
        path = self.folder / name
        fresh = path.with_name(f".{path.name}-fresh")
        fresh.write_text(text)
        os.replace(fresh, path)  # noqa: PTH105

    # --- PodResources ---------------------------------------------------------------------------

    def offered(self) -> bytes:
        return b"".join(
            part(1, _device(plugin.resource, device.id, device.numa))
            for plugin in self.plugins
            for device in plugin.devices
            if device.healthy
        )

    def listed(self) -> bytes:
        state = self.node.state
        numa = {device.id: device.numa for plugin in self.plugins for device in plugin.devices}
        pods = []
        for uid, value in list(self.pods.items()):
            containers = b""
            for container in value["spec"]["containers"]:
                name = container["name"]
                own = part(1, name)
                for resource, grant in state.devices.grants.get(uid, {}).get(name, {}).items():
                    own += b"".join(part(2, _device(resource, one, numa[one])) for one in sorted(grant.ids))
                cpus = state.cpu.assignments.get(uid, {}).get(name, 0)
                if cpus:
                    own += part(3, b"".join(map(varint, ids_of(cpus))))
                for block in state.memory.assignments.get(uid, {}).get(name, ()):
                    nodes = part(3, b"".join(part(1, part(1, one)) for one in ids_of(block.numa)))
                    own += part(4, part(1, block.type) + part(2, block.size) + nodes)
                containers += part(3, own)
            metadata = value["metadata"]
            pods.append(part(1, part(1, metadata["name"]) + part(2, metadata["namespace"]) + containers))
        return b"".join(pods)


def _device(resource: str, name: str, numa: tuple[int, ...] | None) -> bytes:
    topology = part(3, b"".join(part(1, part(1, one)) for one in numa)) if numa else b""
    return part(1, resource) + part(2, name) + topology


@contextlib.contextmanager
def node_on_disk(
    config: Mapping[str, Any] = CONFIG, *, cores: int = 4, devices: int = 4
) -> Iterator[NodeOnDisk]:
    """A node with short names: sockets have room for 107 bytes."""
    top = Path(tempfile.mkdtemp(prefix="nw", dir="/tmp" if os.access("/tmp", os.W_OK) else None))
    try:
        yield NodeOnDisk(top / "root", top / "k", config, cores=cores, devices=devices)
    finally:
        shutil.rmtree(top)
