"""``numawise why pod/NAME``: what the API server knows, and what a bundle of the node adds."""

import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from numawise.codec.checkpoint import encode_cpu
from numawise.engine.state import CpuState
from numawise.inputs.bundle import open_bundle
from tests.cli.run import Ran, numawise
from tests.kube.server import Server, State, kubeconfig, serving
from tests.nodetree import CONFIG, MACHINE_ID, UIDS, grow_node, pod

TOPOLOGY = "TopologyAffinityError"
MESSAGE = "Pod was rejected: Resources cannot be allocated with Topology locality"


def node(version: str = "v1.36.4", machine_id: str = MACHINE_ID) -> dict[str, Any]:
    return {
        "metadata": {"name": "n1"},
        "status": {"nodeInfo": {"kubeletVersion": version, "machineID": machine_id}},
    }


def mirror(letter: str) -> dict[str, Any]:
    """A static pod as the API server has it: under another uid than its kubelet."""
    found = pod(letter)
    annotations = {"kubernetes.io/config.mirror": UIDS[letter]}
    found["metadata"] |= {
        "uid": f"00000000-0000-0000-0000-00000000000{ord(letter) - 96}",
        "annotations": annotations,
    }
    return found


def event(name: str, reason: str = TOPOLOGY, host: str = "n1") -> dict[str, Any]:
    return {
        "metadata": {"name": f"{name}.1", "namespace": "acme"},
        "involvedObject": {"kind": "Pod", "name": name},
        "reason": reason,
        "message": MESSAGE.removeprefix("Pod was rejected: "),
        "lastTimestamp": "2026-11-15T02:20:45Z",
        "source": {"component": "kubelet", "host": host},
    }


@dataclass
class Here:
    """A cluster with one node, and how to ask about it."""

    server: Server
    folder: Path
    capsys: pytest.CaptureFixture[str]

    @property
    def state(self) -> State:
        return self.server.state

    def why(self, name: str, *more: object) -> Ran:
        config = self.folder / "config"
        return numawise(self.capsys, "why", f"pod/{name}", "-n", "acme", "--kubeconfig", config, *more)

    def told(self, name: str, *more: object) -> dict[str, Any]:
        ran = self.why(name, *more, "-o", "json")
        assert ran.status in (0, 1), ran
        (found,) = json.loads(ran.out)["pods"]
        missing = found.get("alignment", {}).get("missing")
        assert ran.status == (0 if found["verdict"] == "admitted" and not missing else 1)
        return dict(found)

    def bundle(self, *more: object) -> Path:
        root, out = self.folder / "root", self.folder / "node.tar.gz"
        if not root.exists():
            grow_node(root)
        assert numawise(self.capsys, "bundle", "--root", root, "-o", out, *more).status == 0
        return out


@pytest.fixture
def here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Here]:
    state = State(
        pods=[mirror(letter) for letter in "abcd"],
        nodes={"n1": node()},
        configz={"n1": yaml.safe_load(CONFIG)},
        events=[event("train-c-n1")],
    )
    with serving(state) as server:
        kubeconfig(tmp_path / "config", server.address, namespace="elsewhere")
        yield Here(server, tmp_path, capsys)


# --- the API server alone -------------------------------------------------------------------


def test_what_the_api_server_can_tell(here: Here) -> None:
    found = here.told("train-c-n1")
    assert (found["verdict"], found["reason"], found["message"]) == ("rejected", TOPOLOGY, MESSAGE)
    assert (found["policy"], found["scope"]) == ("single-numa-node", "container")
    assert "policy single-numa-node of node n1" in found["answer"]
    assert "2 CPUs, 100Mi of memory and 1 example.com/gpu" in found["answer"]
    assert any("run 'numawise bundle' on n1" in remark for remark in found["remarks"])
    assert "suggestions" not in found


def test_the_same_in_words(here: Here) -> None:
    ran = here.why("train-c-n1")
    assert (ran.status, ran.err) == (1, "")
    assert ran.out.splitlines()[0] == "acme/train-c-n1"
    assert f"The kubelet says: {TOPOLOGY}: {MESSAGE}" in " ".join(ran.out.split())


def test_a_pod_that_was_let_in(here: Here) -> None:
    found = here.told("train-a-n1")
    assert found["verdict"] == "admitted"
    assert found["answer"].startswith("Admitted by node n1, running there")


@pytest.mark.parametrize(("status", "spec", "verdict", "words"), [
    pytest.param({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available"}]},
                 {"nodeName": None}, "not scheduled", ["node n1 may let it in"], id="not scheduled"),
    pytest.param({"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."},
                 {}, "admitted", ["failed later: Evicted: The node was low"], id="evicted"),
    pytest.param({"phase": "Pending", "containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "CreateContainerError", "message": "no such device"}}}]},
                 {}, "admitted", ["container c waits: CreateContainerError: no such device"], id="waiting"),
    pytest.param({"phase": "Pending", "containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "ContainerCreating"}}}]},
                 {}, "admitted", ["Admitted by node n1, pending there"], id="starting"),
    pytest.param({"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "Pod was rejected: Allocate failed due to no devices"},
                 {}, "rejected", ["did not admit", "Allocate failed due to no devices"], id="no devices"),
    pytest.param({"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough resource: cpu"},
                 {}, "rejected", ["did not admit", "enough resource: cpu"], id="out of CPUs"),
])  # fmt: skip
def test_what_a_status_says(
    here: Here, status: dict[str, Any], spec: dict[str, Any], verdict: str, words: list[str]
) -> None:
    here.state.pods[2] |= {"status": status}
    here.state.pods[2]["spec"] |= spec
    here.state.events = []
    found = here.told("train-c-n1")
    assert found["verdict"] == verdict
    assert all(word in found["answer"] for word in words), found["answer"]


def test_what_may_not_be_seen_is_told(here: Here) -> None:
    here.state.forbidden = {"/proxy/", "/nodes/n1", "/events"}
    found = here.told("train-c-n1")
    assert found["verdict"] == "rejected"
    assert found["policy"] == ""
    assert "the topology policy of node n1" in found["answer"]
    hidden = [remark for remark in found["remarks"] if remark.startswith("Not known: you may not")]
    assert len(hidden) == 3


def test_a_context_has_a_namespace(here: Here) -> None:
    config = here.folder / "config"
    ran = numawise(here.capsys, "why", "pod/train-c-n1", "--kubeconfig", config)
    assert ran.status == 5
    assert "in namespace 'elsewhere'" in ran.err


# --- pods that are gone ---------------------------------------------------------------------


def owned(name: str, kind: str, owner: str, born: str, *, refused: bool = True) -> dict[str, Any]:
    reference = {"kind": kind, "name": owner, "controller": True}
    found = pod("c" if refused else "a")
    found["metadata"] |= {
        "name": name,
        "uid": name,
        "ownerReferences": [reference],
        "creationTimestamp": born,
    }
    found["metadata"]["annotations"] = {}
    return found


@pytest.mark.parametrize(("asked", "pods", "expected"), [
    pytest.param("web-7d4b9-aaaaa", [owned("web-7d4b9-bbbbb", "ReplicaSet", "web-7d4b9", "2026-11-15T02:00:00Z"),
                                     owned("web-7d4b9-ccccc", "ReplicaSet", "web-7d4b9", "2026-11-15T03:00:00Z")], "web-7d4b9-ccccc", id="the newest"),
    pytest.param("web-7d4b9-aaaaa", [owned("web-7d4b9-bbbbb", "ReplicaSet", "web-7d4b9", "2026-11-15T02:00:00Z"),
                                     owned("web-7d4b9-ccccc", "ReplicaSet", "web-7d4b9", "2026-11-15T03:00:00Z", refused=False)], "web-7d4b9-bbbbb", id="refused first"),
    pytest.param("web-7d4b9-aaaaa", [owned("web-99999-ddddd", "ReplicaSet", "web-99999", "2026-11-15T02:00:00Z")], "web-99999-ddddd", id="after a roll-out"),
    pytest.param("job-aaaaa",       [owned("job-bbbbb", "Job", "job", "2026-11-15T02:00:00Z"),
                                     owned("job-other-ccccc", "Job", "job-other", "2026-11-15T03:00:00Z")], "job-bbbbb", id="a job, not its namesake"),
])  # fmt: skip
def test_an_owner_made_another(here: Here, asked: str, pods: list[dict[str, Any]], expected: str) -> None:
    here.state.pods += deepcopy(pods)
    found = here.told(asked)
    assert found["name"] == expected
    assert found["remarks"][0].startswith(f"Pod {asked} is gone; this is {expected}, which ")
    if found["verdict"] == "rejected":
        assert any(
            remark.startswith("The kubelet does not try a rejected pod again") for remark in found["remarks"]
        )


def test_events_outlive_a_pod(here: Here) -> None:
    here.state.events.append(event("gone-0"))
    found = here.told("gone-0")
    assert (found["verdict"], found["reason"], found["policy"]) == ("rejected", TOPOLOGY, "single-numa-node")
    assert any("was not replaced" in remark for remark in found["remarks"])


def test_neither_pod_nor_events(here: Here) -> None:
    ran = here.why("never-was")
    assert (ran.status, ran.out) == (5, "")
    assert ran.err == "numawise: there is no pod 'never-was' in namespace 'acme', and no event about it\n"


def unpack(bundle: Path, folder: Path) -> Path:
    for name, content in open_bundle(str(bundle)).members.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


# --- with a bundle --------------------------------------------------------------------------


def test_a_bundle_tells_which_resource_and_names_the_pods(here: Here) -> None:
    found = here.told("train-c-n1", "--bundle", here.bundle())
    assert found["verdict"] == "rejected"
    assert found["answer"] == (
        "Rejected, not now (2 pods hold 2 example.com/gpu): example.com/gpu: 1 is asked for and none is free "
        "(2 in all, 2 in use)"
    )
    texts = [one["text"] for one in found["suggestions"]]
    assert any(text.startswith("Wait until pod acme/train-b-n1 (holds 2 CPUs (4-5)") for text in texts), texts


def test_a_pod_that_runs_keeps_what_it_has(here: Here) -> None:
    found = here.told("train-b-n1", "--bundle", here.bundle())
    assert found["verdict"] == "admitted"
    assert "everything on NUMA 1" in found["answer"]
    assert "4-5" in found["answer"]


def test_the_running_configuration_is_believed(here: Here) -> None:
    here.state.configz["n1"]["topologyManagerPolicy"] = "best-effort"
    here.state.configz["n1"]["somethingNew"] = {"x": 1}
    found = here.told("train-c-n1", "--bundle", here.bundle())
    assert found["policy"] == "best-effort"
    here.state.configz.clear()
    found = here.told("train-c-n1", "--bundle", here.bundle())
    assert found["policy"] == "single-numa-node"
    assert any("The configuration is the bundle's" in remark for remark in found["remarks"])


def test_the_release_is_the_nodes(here: Here) -> None:
    here.state.nodes["n1"] = node("v1.5.0-acme.1")
    ran = here.why("train-c-n1", "--bundle", here.bundle("--kube", "1.36"))
    assert (ran.status, ran.out) == (2, "")
    assert "the node's kubeletVersion: " in ran.err
    assert here.why("train-c-n1", "--bundle", here.bundle(), "--kube", "1.36").status == 1


def test_a_bundle_of_another_machine(here: Here) -> None:
    here.state.nodes["n1"] = node(machine_id="0" * 32)
    ran = here.why("train-c-n1", "--bundle", here.bundle())
    assert (ran.status, ran.out) == (2, "")
    assert "node.tar.gz: is of another machine, and the pod was sent to n1" in ran.err


def test_a_bundle_with_names(here: Here) -> None:
    kept = here.bundle("--keep-names")
    found = here.told("train-c-n1", "--bundle", kept)
    assert any("acme/train-b-n1" in one["text"] for one in found["suggestions"])
    here.state.pods[2]["spec"]["nodeName"] = "n2"
    ran = here.why("train-c-n1", "--bundle", kept)
    assert ran.status == 2
    assert "is of node n1, and the pod was sent to n2" in ran.err


def test_refused_then_and_admitted_by_the_state_files(here: Here) -> None:
    out = here.bundle()
    unpacked = unpack(out, here.folder / "unpacked")
    for name in ("memory_manager_state", "kubelet_internal_checkpoint"):
        (unpacked / "state" / name).unlink()
    (unpacked / "state/cpu_manager_state").write_text(encode_cpu("static", CpuState(shared=0xFF)))
    here.state.pods = here.state.pods[2:3]
    found = here.told("train-c-n1", "--bundle", out, "--state", unpacked / "state")
    assert found["verdict"] == "admitted"
    assert any(
        f"The kubelet refused it (TopologyAffinityError), but with what was held by {unpacked}/state"
        in remark
        for remark in found["remarks"]
    )


def test_the_node_object_is_the_clusters(here: Here) -> None:
    out = here.bundle()
    assert here.told("train-a-n1", "--bundle", out)["verdict"] == "admitted"
    here.state.nodes["n1"]["metadata"]["labels"] = {"zone": "a"}
    here.state.pods[0]["spec"]["nodeSelector"] = {"zone": "b"}
    found = here.told("train-a-n1", "--bundle", out)
    assert found["reason"] == "NodeAffinity"
    assert "nodeSelector demands zone=b, and the node has zone=a" in found["answer"]
    here.state.nodes["n1"]["spec"] = {"taints": [{"key": "x"}]}
    ran = here.why("train-a-n1", "--bundle", out)
    assert ran.status == 5
    assert "the API server's node cannot be read" in ran.err


def test_a_machine_without_a_bundle(here: Here) -> None:
    out = here.bundle()
    folder = unpack(out, here.folder / "unpacked")
    found = here.told("train-c-n1", "--machine", folder / "machine.yaml", "--state", folder / "state")
    assert found["answer"].startswith("Rejected, not now (2 pods hold 2 example.com/gpu)")


# --- flags ----------------------------------------------------------------------------------


def test_flags_of_a_cluster_go_with_its_pods(here: Here, tmp_path: Path) -> None:
    ran = numawise(here.capsys, "why", "-n", "acme", "pod.yaml")
    assert ran.status == 2
    assert "--namespace go with a pod or an owner of a cluster; write it as pod/NAME" in ran.err
    ran = here.why("train-c-n1", tmp_path / "pod.yaml")
    assert ran.status == 2
    assert "ask for one kind at a time" in ran.err


def test_a_file_of_that_name_is_a_file(here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pod").mkdir()
    (tmp_path / "pod/x").write_text("{}")
    monkeypatch.chdir(tmp_path)
    ran = numawise(here.capsys, "why", "pod/x")
    assert ran.status == 2
    assert here.state.asked == []


@pytest.mark.parametrize("text", ["kind: Pod", "clusters: []"])
def test_a_bad_kubeconfig(here: Here, text: str) -> None:
    (here.folder / "config").write_text(text)
    ran = here.why("train-c-n1")
    assert (ran.status, ran.out) == (5, "")
    assert len(ran.err.splitlines()) == 1
