"""What lay on a real node at one time, laid out again: files, a PodResources socket that answers as recorded, hardware."""

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from numawise.apps.agent.offers import fake_offers
from numawise.apps.agent.sight_reading import SightReader
from numawise.apps.agent.sight_values import ApiView, KubeletSight, OwnPlugin
from numawise.codec.checkpoint import PLACES
from numawise.codec.checkpoint.reading import ALLOCATED_FILE
from numawise.codec.fake_devices import read_fakes
from numawise.inputs.gathered import NodeSources
from tests.kube.noded import PodResourcesServer
from tests.kube.wire import part, varint
from tests.unit.host.trees import grow


class RecordedNode(PodResourcesServer):
    """A node as it was; ``read`` shows it to our reader at one time after the other."""

    def __init__(self, top: Path, root: Path, first: Mapping[str, Any], configuration: str) -> None:
        super().__init__(top / "k")
        self.answers: Mapping[str, Any] = {}
        (self.folder / "config.yaml").write_text(configuration)
        devices = top / "devices.yaml"
        devices.write_text(json.dumps(first["devices"]))
        own = {offer.resource: OwnPlugin(offer.preference) for offer in fake_offers(read_fakes(str(devices)))}
        sources = NodeSources(
            root=root,
            kubelet_dir=str(self.folder),
            kubelet_config=str(self.folder / "config.yaml"),
            kube=first["kubernetes"],
        )
        self.reader = SightReader(sources, "numa-vm", own_plugins=lambda: own)

    def read(self, held: Mapping[str, Any]) -> KubeletSight:
        """What our reader makes of all that an exporter could see."""
        for name, places in {**PLACES, ALLOCATED_FILE: (ALLOCATED_FILE,)}.items():
            path = self.folder / places[0]
            path.parent.mkdir(exist_ok=True)
            path.unlink(missing_ok=True)
            if name in held["files"]:
                path.write_text(held["files"][name])
        self.answers = held["answers"]
        return self.reader.read(ApiView(held["node"], tuple(held["pods"]), synced=True))

    def listed(self) -> bytes:
        return b"".join(
            part(
                1, part(1, pod["name"]) + part(2, pod["namespace"]) + _parts(3, pod["containers"], _container)
            )
            for pod in self.answers["List"]["podResources"]
        )

    def offered(self) -> bytes:
        answer = self.answers["Allocatable"]
        return (
            _parts(1, answer["devices"], _devices) + _cpus(2, answer) + _parts(3, answer["memory"], _memory)
        )


def _parts(number: int, values: Any, encoded: Any) -> bytes:
    return b"".join(part(number, encoded(value)) for value in values)


def _container(value: Mapping[str, Any]) -> bytes:
    own = part(1, value["name"]) + _parts(2, value.get("devices", ()), _devices) + _cpus(3, value)
    return own + _parts(4, value.get("memory", ()), _memory)


def _cpus(number: int, value: Mapping[str, Any]) -> bytes:
    ids = [int(cpu) for cpu in value.get("cpuIds", ())]
    return part(number, b"".join(map(varint, ids))) if ids else b""


def _devices(value: Mapping[str, Any]) -> bytes:
    own = part(1, value["resourceName"]) + b"".join(part(2, name) for name in value["deviceIds"])
    return own + _topology(value)


def _memory(value: Mapping[str, Any]) -> bytes:
    return part(1, value["memoryType"]) + part(2, int(value["size"])) + _topology(value)


def _topology(value: Mapping[str, Any]) -> bytes:
    if value.get("topology") is None:
        return b""
    return part(3, _parts(1, value["topology"]["nodes"], lambda node: part(1, int(node.get("ID", 0)))))


def grow_hardware(root: Path, first: Mapping[str, Any]) -> Path:
    """The files of a node's hardware, of which a run has one; ``first``: its first line."""
    return grow(root, {path: text.rstrip("\n") for path, text in first["hardware"].items()})


@contextlib.contextmanager
def recorded_node(root: Path, first: Mapping[str, Any], configuration: str) -> Iterator[RecordedNode]:
    """A node with a configuration, and its hardware below ``root``.  Sockets have room for 107 bytes."""
    top = Path(tempfile.mkdtemp(prefix="nw", dir="/tmp" if os.access("/tmp", os.W_OK) else None))
    try:
        node = RecordedNode(top, root, first, configuration)
        with node.listening():
            yield node
    finally:
        shutil.rmtree(top)
