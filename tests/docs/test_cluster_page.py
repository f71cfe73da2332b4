"""The page about a cluster shows what the commands really print."""

import re
from pathlib import Path
from typing import Any

import pytest
from tests.cli.run import ROOT, numawise
from tests.kube.server import State, kubeconfig, serving
from tests.unit.cluster.live_objects import api_node, api_pod, published

from numawise.inputs.spec import NodeSpec, read_node, start_node
from numawise.node.node import SimulatedNode

PAGE = (ROOT / "docs/how-to/ask-a-cluster.md").read_text()
EIGHT = ROOT / "examples/8gpu-server"
GPU = "nvidia.com/gpu"


def server_node() -> SimulatedNode:
    config = str(EIGHT / "kubelet-single-numa-node.yaml")
    return start_node(read_node(NodeSpec(machine=("8gpu-server",), kubelet_config=(config,))))


def pod(
    name: str, gpus: int, node: str = "", owner: str = "ReplicaSet web-7d4b9", **more: Any
) -> dict[str, Any]:
    """A pod that asks for 8 CPUs and 32 GiB with each GPU."""
    value = api_pod(name, 0, node, cpu=str(8 * gpus), memory=f"{32 * gpus}Gi", restart="Always", **more)
    value["spec"]["containers"][0]["resources"]["limits"][GPU] = str(gpus)
    kind, _, title = owner.partition(" ")
    value["metadata"]["ownerReferences"] = [{"kind": kind, "name": title, "controller": True}]
    value["metadata"]["namespace"] = "ml"
    return value


def state() -> State:
    """Three nodes with an agent, one without; small pods lie so that no half is free on two of them."""
    names = ("gpu-1", "gpu-2", "gpu-3", "gpu-10")
    state = State(nodes={name: api_node(name) for name in names})
    state.nodes["gpu-10"]["status"]["allocatable"] = {
        "cpu": "126",
        "memory": "1000Gi",
        GPU: "8",
        "pods": "110",
    }
    loads = {"gpu-1": (4, 2, 1), "gpu-2": (2, 1, 2), "gpu-3": (4,)}
    state.pods = [
        pod(f"web-7d4b9-{name[-1]}{at}", gpus, name)
        for name, load in loads.items()
        for at, gpus in enumerate(load)
    ]
    for name in loads:
        state.put_topology(published(server_node(), name))
    return state


def sessions() -> list[tuple[str, str]]:
    return re.findall(r"```console\n\$ ([^\n]*)\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("command", "output"), [one for one in sessions() if one[1]])
def test_sessions_are_real(
    command: str,
    output: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with serving(state()) as server:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "config", server.address)))
        ran = numawise(capsys, *command.removeprefix("kubectl ").split()[1:])
    assert ran.out + ran.err == output, command
