"""A bundle made while a kubelet listens: what its socket answers decides where devices are, and who holds them."""

import json
import socket
import struct
from pathlib import Path

import pytest

from numawise.inputs.bundle import open_bundle
from numawise.inputs.spec import NodeSpec, read_node
from tests import needs
from tests.cli.run import numawise
from tests.kube.test_podresources import frame, kubelet, part
from tests.nodetree import grow_node, pod_list

pytestmark = needs.PROC
"""The name of the socket is long."""

GPU = "example.com/gpu"
NODE = {
    "kind": "Node",
    "metadata": {"name": "acme-1"},
    "status": {"allocatable": {"cpu": "3", "memory": "1Gi", "pods": "110", GPU: "2"}},
}


def device(name: str, numa: int) -> bytes:
    return part(1, GPU) + part(2, name) + part(3, part(1, part(1, numa)))


def answer(connection: socket.socket, request: bytes) -> None:
    """No pods at all, and two devices on NUMA 1."""
    message = b"" if b"/List" in request else part(1, device("gpu0", 1)) + part(1, device("gpu1", 1))
    body = b"\0" + struct.pack(">I", len(message)) + message
    connection.sendall(frame(4, 0, b"", 0) + frame(0, 0, body) + frame(1, 5, b"\x88"))


@pytest.fixture
def bundle(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Path:
    root = grow_node(tmp_path / "root")
    monkeypatch.chdir(root / "var/lib/kubelet")
    Path("pod-resources").mkdir()
    (tmp_path / "pods.json").write_text(pod_list())
    (tmp_path / "node.json").write_text(json.dumps(NODE))
    with kubelet(Path("pod-resources/kubelet.sock"), answer):
        ran = numawise(
            capsys, "bundle", "--root", root, "-o", tmp_path / "n.tar.gz", "--pods", tmp_path / "pods.json",
            "--kube", "1.36.4", "--node-object", tmp_path / "node.json",
        )  # fmt: skip
    assert ran.status == 0, ran
    assert "not inside: PodResources" not in ran.err
    return tmp_path / "n.tar.gz"


def test_devices_are_where_the_kubelet_says(bundle: Path) -> None:
    opened = open_bundle(str(bundle))
    (plugin,) = opened.machine().plugins
    assert {one.id: (one.numa, one.numa_unknown) for one in plugin.devices} == {
        "gpu0": ((1,), False),
        "gpu1": ((1,), False),
    }


def test_pods_that_it_does_not_list_hold_nothing(bundle: Path) -> None:
    source = read_node(NodeSpec(bundle=str(bundle)))
    recorded = set(source.state.cpu.assignments) if source.state else set()
    assert recorded
    assert source.holders.gone >= recorded
    assert source.running == ()


def test_the_node_object_is_inside_without_its_name(bundle: Path) -> None:
    described = open_bundle(str(bundle)).description()
    assert described is not None
    assert (described.name, described.allocatable["cpu"], described.labels_known) == ("", 3000, False)
    assert b"acme" not in b"".join(open_bundle(str(bundle)).members.values())
