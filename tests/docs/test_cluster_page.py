"""The page about a cluster shows what the commands really print."""

from pathlib import Path
from typing import Any

import pytest
from tests.cli.run import ROOT
from tests.docs.cluster_sessions import sessions, typed
from tests.kube.server import State
from tests.unit.cluster.live_objects import api_node, api_pod, published
from tests.unit.cluster.nodes import put

from numawise.cluster.asking import Asker, members_of
from numawise.codec.pod import pod_from
from numawise.inputs.spec import NodeSpec, read_node, start_node
from numawise.node.node import SimulatedNode

PAGE = (ROOT / "docs/how-to/ask-a-cluster.md").read_text()
EIGHT = ROOT / "examples/8gpu-server"
GPU = "nvidia.com/gpu"
UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/4 nodes are available: 3 Insufficient nvidia.com/gpu, 1 node(s) were unschedulable.",
}


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
    state.nodes["gpu-10"]["spec"] = {"unschedulable": True}
    state.nodes["gpu-10"]["status"]["allocatable"] = {
        "cpu": "126",
        "memory": "1000Gi",
        GPU: "8",
        "pods": "110",
    }
    loads = {"gpu-1": (4, 2, 1), "gpu-2": (2, 2, 2, 2), "gpu-3": (4, 1)}
    gone = ("web-7d4b9-21", "web-7d4b9-23")
    for name, load in loads.items():
        members = members_of([([name], server_node())])
        asker = Asker(members)
        for at, gpus in enumerate(load):
            value = pod(f"web-7d4b9-{name[-1]}{at}", gpus, name)
            put(asker, members[0], pod_from(value))
            state.pods.append(value)
        for uid in gone:
            asker.end(members[0], uid)
        state.put_topology(published(members[0].node, name))
    state.pods = [one for one in state.pods if one["metadata"]["name"] not in gone]
    state.pods.append(pod("train-0", 4, owner="StatefulSet train"))
    state.pods[-1]["status"]["conditions"] = [UNSCHEDULABLE]
    state.answers["/apis/policy/v1/poddisruptionbudgets"] = (
        200,
        "application/json",
        b'{"items": [], "metadata": {}}',
    )
    return state


@pytest.mark.parametrize(("command", "output"), [one for one in sessions(PAGE) if one[1]])
def test_sessions_are_real(
    command: str,
    output: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert typed(command, state(), tmp_path, capsys, monkeypatch) == output
