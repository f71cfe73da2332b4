"""``numawise why`` on pods and owners of a cluster whose node's state nobody gave: it is rebuilt, and that is said."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from numawise.apps.why.lookup import is_here, socket_answers
from numawise.codec.document import read_documents
from numawise.codec.machine import decode_machine
from numawise.engine.admit import Admitted
from numawise.node.node import started
from numawise.node.publication import publication_of, topology_object
from tests.cli.run import Ran, numawise
from tests.kube.server import Server, State, kubeconfig, serving
from tests.kube.test_podresources import kubelet, messages
from tests.unit.build import pod as request

TOPOLOGY, MESSAGE = (
    "TopologyAffinityError",
    "Pod was rejected: Resources cannot be allocated with Topology locality",
)
MACHINE = """\
numa:
- {id: 0, memory: 8589934592, distances: [10, 20]}
- {id: 1, memory: 8589934592, distances: [20, 10]}
devices:
  example.com/gpu:
    devices: [{id: g0, numa: [0]}, {id: g1, numa: [0]}, {id: g2, numa: [1]}, {id: g3, numa: [1]}]
cpus:
""" + "".join(
    f"- {{cpu: {cpu}, core: {cpu % 8}, socket: {cpu // 8}, numa: {cpu // 8}}}\n" for cpu in range(16)
)
CONFIG = {
    "cpuManagerPolicy": "static",
    "topologyManagerPolicy": "single-numa-node",
    "reservedSystemCPUs": "0,8",
}


def clock(second: int) -> str:
    return f"2026-11-15T10:{second // 60:02}:{second % 60:02}Z"


def pod(
    name: str,
    start: int,
    cpus: int = 2,
    gpus: int = 0,
    *,
    refused: bool = False,
    owner: str = "",
    **status: Any,
) -> dict[str, Any]:
    """A pod of n1, that started or was refused at that second."""
    own = {"cpu": str(cpus), "memory": "1Gi"} | ({"example.com/gpu": str(gpus)} if gpus else {})
    kind, _, title = owner.partition(" ")
    reference = [{"kind": kind, "name": title, "controller": True}] if owner else []
    said = {"phase": "Failed", "reason": TOPOLOGY, "message": MESSAGE} if refused else {"phase": "Running"}
    return {
        "metadata": {
            "name": name,
            "namespace": "ml",
            "uid": f"uid-{name}",
            "creationTimestamp": clock(start),
            "ownerReferences": reference,
        },
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "c", "image": "i", "resources": {"requests": own, "limits": own}}],
        },
        "status": {**said, "qosClass": "Guaranteed", "startTime": clock(start), **status},
    }


def owner(kind: str, name: str, cpus: int = 2, gpus: int = 0, parent: str = "") -> dict[str, Any]:
    template = {"spec": {"containers": pod(name, 0, cpus, gpus)["spec"]["containers"]}}
    spec: dict[str, Any] = {"template": template}
    parent_kind, _, parent_name = parent.partition(" ")
    references = [{"kind": parent_kind, "name": parent_name, "controller": True}] if parent else []
    return {
        "kind": kind,
        "metadata": {"name": name, "namespace": "ml", "ownerReferences": references},
        "spec": {"jobTemplate": {"spec": spec}} if kind == "CronJob" else spec,
    }


def zone(number: int, cpus: int, gpus: int) -> dict[str, Any]:
    """A NUMA node of which so much is free."""

    def row(name: str, capacity: object, allocatable: object, available: object) -> dict[str, str]:
        amounts = {"capacity": str(capacity), "allocatable": str(allocatable), "available": str(available)}
        return {"name": name, **amounts}

    return {
        "name": f"node-{number}",
        "type": "Node",
        "costs": [{"name": f"node-{n}", "value": 10 if n == number else 20} for n in (0, 1)],
        "resources": [row("cpu", 8, 7, cpus), row("memory", "8Gi", 0, 0), row("example.com/gpu", 2, 2, gpus)],
    }


def topology(*zones: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "n1"},
        "topologyPolicies": ["SingleNUMANodeContainerLevel"],
        "zones": list(zones),
        **more,
    }


@dataclass
class Here:
    server: Server
    folder: Path
    capsys: pytest.CaptureFixture[str]

    @property
    def state(self) -> State:
        return self.server.state

    def why(self, *words: object, machine: bool = True) -> Ran:
        known = ("--machine", self.folder / "machine.yaml") if machine else ()
        return numawise(self.capsys, "why", *words, "--kubeconfig", self.folder / "config", *known)

    def told(self, *words: object, machine: bool = True) -> list[dict[str, Any]]:
        ran = self.why(*words, "-o", "json", machine=machine)
        assert ran.status in (0, 1), ran
        found: list[dict[str, Any]] = json.loads(ran.out)["pods"]
        assert ran.status == (0 if all(one["verdict"] == "admitted" for one in found) else 1)
        return found


@pytest.fixture
def here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Here]:
    node = {"metadata": {"name": "n1"}, "status": {"nodeInfo": {"kubeletVersion": "v1.36.4"}}}
    (tmp_path / "machine.yaml").write_text(MACHINE)
    with serving(State(nodes={"n1": node}, configz={"n1": dict(CONFIG)})) as server:
        kubeconfig(tmp_path / "config", server.address, namespace="ml")
        yield Here(server, tmp_path, capsys)


# --- by the pods of the node ----------------------------------------------------------------


def test_pods_that_run_hold_what_they_asked_for(here: Here) -> None:
    here.state.pods = [pod("late", 30, 6, refused=True), pod("b", 20, 4), pod("a", 10, 4)]
    (found,) = here.told("pod/late")
    assert (found["verdict"], found["reason"], found["message"]) == ("rejected", TOPOLOGY, MESSAGE)
    assert "NUMA 0-1 have 3 free each" in found["answer"]
    basis = found["reconstruction"]
    assert (basis["node"], basis["moment"], basis["pods"]) == ("n1", clock(30), 2)
    assert (basis["reproduced"], basis["unplaced"]) == (True, [])
    assert basis["state"] == "the 2 pods that ran there then, admitted in the order of their start"
    assert basis["configuration"] == "what its kubelet reports (configz)"
    assert basis["machine"].endswith("machine.yaml")
    said = next(one for one in found["remarks"] if one.startswith("This is a reconstruction of node n1"))
    assert "as there are no state files" in said
    assert any(one.get("remove") for one in found["suggestions"])


def test_no_file_is_quoted_that_nobody_gave(here: Here) -> None:
    here.state.pods = [pod("late", 30, 6, refused=True)]
    ran = here.why("pod/late")
    assert ran.status == 1
    text = " ".join(ran.out.split())
    assert "by the state files" not in text
    assert "state files of" not in text.lower().replace("no state files", "")


@pytest.mark.parametrize(("others", "counted"), [
    pytest.param([("ended", 10, {"phase": "Succeeded", "containerStatuses": [{"name": "c", "state": {"terminated": {"finishedAt": clock(20)}}}]})], 0, id="ended before"),
    pytest.param([("ended", 10, {"phase": "Succeeded", "containerStatuses": [{"name": "c", "state": {"terminated": {"finishedAt": clock(40)}}}]})], 1, id="ended since"),
    pytest.param([("evicted", 10, {"phase": "Failed", "reason": "Evicted", "containerStatuses": [{"name": "c", "state": {"running": {}}}]})], 1, id="failed, and its containers still run"),
    pytest.param([("after", 50, {})],                                                                         0, id="started since"),
    pytest.param([("pending", 10, {"phase": "Pending"})],                                                     1, id="admitted, not yet running"),
    pytest.param([("refused", 10, {"phase": "Failed", "reason": TOPOLOGY})],                                  0, id="refused"),
])  # fmt: skip
def test_who_held_something_then(
    here: Here, others: list[tuple[str, int, dict[str, Any]]], counted: int
) -> None:
    here.state.pods = [pod(name, start, 1, **status) for name, start, status in others]
    here.state.pods.append(pod("late", 30, 8, refused=True))
    (found,) = here.told("pod/late")
    assert found["reconstruction"]["pods"] == counted


def test_static_pods_come_first(here: Here) -> None:
    static = pod("static", 25, 6)
    static["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "hash"}
    here.state.pods = [pod("small", 10, 2), static, pod("late", 30, 6, refused=True)]
    (found,) = here.told("pod/late")
    (cpus,) = (one for one in found["round"]["hints"] if one["resource"] == "cpu")
    assert [place["free"] for place in cpus["numa"]] == [1, 5]


def test_pods_of_the_same_second(here: Here) -> None:
    """One that came after it within the second must not hide why it was refused."""
    here.state.pods = [pod("a", 10, 7), pod("b", 30, 7), pod("late", 30, 4, refused=True)]
    (found,) = here.told("pod/late")
    assert found["reconstruction"]["reproduced"] is True
    here.state.pods = [pod("b", 30, 4), pod("late", 30, 8, refused=True)]
    (found,) = here.told("pod/late")
    assert found["reconstruction"]["reproduced"] is True


def test_a_reconstruction_that_does_not_show_why(here: Here) -> None:
    here.state.pods = [pod("a", 10, 2), pod("late", 30, 4, refused=True)]
    ran = here.why("pod/late")
    assert ran.status == 1
    text = " ".join(ran.out.split())
    assert (
        "Rejected: the kubelet of node n1 refused it (TopologyAffinityError), and the reconstruction does not"
        in text
    )
    assert "by the reconstruction it is admitted" in text
    assert "What would help" not in text
    (found,) = here.told("pod/late")
    assert found["reconstruction"]["reproduced"] is False
    assert found["round"] is None


def test_pods_that_are_gone_are_named_by_their_events(here: Here) -> None:
    here.state.pods = [pod("late", 30, 4, refused=True)]
    here.state.events = [
        event("left", "Started", 10),
        event("left", "Killing", 40),
        event("before", "Started", 5),
        event("before", "Killing", 8),
    ]
    (found,) = here.told("pod/late")
    assert "Not known: what it held: left ran there then, by events, and is gone" in found["remarks"]


def event(name: str, reason: str, second: int, kind: str = "Pod", message: str = "…") -> dict[str, Any]:
    return {
        "metadata": {"name": f"{name}.{second}", "namespace": "ml"},
        "involvedObject": {"kind": kind, "name": name},
        "reason": reason,
        "message": message,
        "firstTimestamp": clock(second),
        "lastTimestamp": clock(second),
        "source": {"component": "kubelet", "host": "n1"},
    }


def test_another_reason_is_not_the_same(here: Here) -> None:
    late = pod("late", 30, 20, refused=True)
    late["status"] |= {
        "reason": "OutOfcpu",
        "message": "Pod was rejected: Node didn't have enough resource: cpu",
    }
    here.state.pods = [late]
    (found,) = here.told("pod/late")
    assert found["reason"] == "OutOfcpu"
    assert found["reconstruction"]["reproduced"] in (True, False)
    late["status"] |= {"reason": "UnexpectedAdmissionError"}
    (found,) = here.told("pod/late")
    assert found["reconstruction"]["reproduced"] is False


def test_now_is_compared_with_then(here: Here) -> None:
    ended: dict[str, Any] = {
        "phase": "Succeeded",
        "containerStatuses": [{"name": "c", "state": {"terminated": {"finishedAt": clock(40)}}}],
    }
    here.state.pods = [pod("a", 10, 7, **ended), pod("b", 11, 7), pod("late", 30, 4, refused=True)]
    (found,) = here.told("pod/late")
    assert found["reconstruction"]["reproduced"] is True
    assert "With the one pod that runs there now it would be admitted" in found["remarks"]


def test_a_pod_that_runs_and_has_no_place(here: Here) -> None:
    here.state.pods = [pod("a", 10, 4), pod("b", 11, 4), pod("c", 12, 6), pod("late", 30, 4, refused=True)]
    (found,) = here.told("pod/late")
    assert found["reconstruction"]["unplaced"] == ["ml/c"]
    assert any(one.startswith("Not known where: ml/c runs there") for one in found["remarks"])


def test_a_pod_that_runs(here: Here) -> None:
    here.state.pods = [pod("a", 10, 4), pod("b", 11, 4)]
    (found,) = here.told("pod/b")
    assert found["answer"].startswith("Admitted by node n1, running there; by the reconstruction ")
    assert "NUMA 1" in found["answer"]


# --- by what is published -------------------------------------------------------------------


@pytest.mark.parametrize("versions", [("v1alpha2", "v1alpha1"), ("v1alpha1",)])
def test_a_published_topology_is_machine_state_and_configuration(
    here: Here, versions: tuple[str, ...]
) -> None:
    here.state.topology_versions = versions
    here.state.topologies = {"n1": topology(zone(0, 7, 2), zone(1, 3, 0))}
    here.state.pods = [pod("a", 10, 4, 2), pod("late", 30, 8, refused=True)]
    here.state.configz = {}
    (found,) = here.told("pod/late", machine=False)
    basis = found["reconstruction"]
    assert basis["machine"] == "its NodeResourceTopology"
    assert basis["configuration"].startswith(
        "assumed from its NodeResourceTopology: policy single-numa-node with scope container, CPU Manager static with "
        "2 reserved CPUs, Memory Manager None"
    )
    assert (
        basis["state"]
        == "the one pod that ran there then, placed by what its NodeResourceTopology publishes as free"
    )
    (cpus,) = (one for one in found["round"]["hints"] if one["resource"] == "cpu")
    assert [place["free"] for place in cpus["numa"]] == [7, 3]  # in order of start it would be 3 and 7


def exact_topology(*running: tuple[str, int, int]) -> dict[str, Any]:
    """What the agent of n1 publishes: these pods came, with so many CPUs and GPUs, after one that is gone."""
    node = started(decode_machine(read_documents(MACHINE, "machine")[0]), CONFIG, (1, 36))
    for name, cpus, gpus in (("gone", 4, 1), *running):
        wanted = request(f"uid-{name}", f"c cpu={cpus} memory=1Gi example.com/gpu={gpus}")
        decision = node.admit(wanted)
        assert isinstance(decision, Admitted), decision
        node.start(wanted, decision)
    node.remove("uid-gone")
    node.reconcile()
    return topology_object(publication_of(node, "n1", kubelet="v1.36.4"))


def test_an_exact_state_is_the_node_itself(here: Here) -> None:
    """The first CPUs are free again; no order of start would show that."""
    here.state.topologies = {"n1": exact_topology(("a", 3, 1))}
    here.state.pods = [pod("a", 10, 3, 1), pod("late", 30, 8, refused=True)]
    here.state.configz = {}
    (found,) = here.told("pod/late", machine=False)
    basis = found["reconstruction"]
    assert basis["machine"] == basis["configuration"] == "its NodeResourceTopology, which has its exact state"
    assert basis["state"] == (
        "the one pod that ran there then, with the exact state that its NodeResourceTopology publishes"
    )
    assert not basis["unplaced"]
    assert basis["reproduced"] is True
    (found,) = here.told("pod/a", machine=False)
    assert "CPUs (5-7)" in found["answer"], "after those of the pod that is gone"


def test_a_broken_exact_state_is_said(here: Here) -> None:
    broken = exact_topology(("a", 3, 1))
    broken["attributes"][-1]["value"] = "v1:0123456789abcdef:AAAA"
    here.state.topologies = {"n1": broken}
    here.state.pods = [pod("a", 10, 3, 1), pod("late", 30, 8, refused=True)]
    here.state.configz = {}
    (found,) = here.told("pod/late", machine=False)
    assert found["reconstruction"]["machine"] == "its NodeResourceTopology"
    assert any(
        "exact state in the node's NodeResourceTopology cannot be used" in one for one in found["remarks"]
    )


def test_what_is_in_use_and_nobody_has_is_not_known(here: Here) -> None:
    here.state.topologies = {"n1": topology(zone(0, 4, 2), zone(1, 3, 1))}
    here.state.pods = [pod("a", 10, 4), pod("late", 30, 6, refused=True)]
    (found,) = here.told("pod/late", machine=False)
    assert any(
        "3 CPUs on NUMA 0 and 1 example.com/gpu on NUMA 1 in use that no pod accounts for" in one
        for one in found["remarks"]
    )
    assert found["reconstruction"]["reproduced"] is True
    assert all("not known" not in one["text"] for one in found["suggestions"])


def test_what_is_published_shows_where_survivors_were(here: Here) -> None:
    """The pod of NUMA 1 is still there; one that came since is not counted."""
    here.state.topologies = {"n1": topology(zone(0, 2, 2), zone(1, 1, 2))}
    here.state.pods = [pod("a", 10, 6), pod("since", 50, 5), pod("late", 30, 4, refused=True)]
    (found,) = here.told("pod/late", machine=False)
    assert found["reconstruction"]["reproduced"] is False
    (found,) = here.told("pod/a", machine=False)
    assert "NUMA 1" in found["answer"]


def test_a_topology_that_cannot_be_read(here: Here) -> None:
    here.state.topologies = {
        "n1": topology({"name": "node-0", "type": "Node", "resources": [{"name": "cpu", "capacity": "many"}]})
    }
    here.state.pods = [pod("late", 30, 8, refused=True)]
    (found,) = here.told("pod/late")
    assert any("NodeResourceTopology cannot be used" in one for one in found["remarks"])
    (found,) = here.told("pod/late", machine=False)
    assert any("run 'numawise bundle' on n1" in one for one in found["remarks"])


# --- what may not be seen -------------------------------------------------------------------


def test_a_configuration_that_may_not_be_read(here: Here) -> None:
    here.state.forbidden = {"/proxy/"}
    here.state.pods = [pod("late", 30, 8, refused=True)]
    (found,) = here.told("pod/late")
    assert any(
        "the kubelet's configuration may not be read: give --kubelet-config" in one
        for one in found["remarks"]
    )
    (here.folder / "kubelet.yaml").write_text(json.dumps(CONFIG))
    (found,) = here.told("pod/late", "--kubelet-config", here.folder / "kubelet.yaml")
    assert found["reconstruction"]["configuration"].endswith("kubelet.yaml")


def test_neighbours_that_may_not_be_seen(here: Here) -> None:
    here.state.forbidden = {"/api/v1/pods"}
    here.state.pods = [pod("late", 30, 8, refused=True)]
    (found,) = here.told("pod/late")
    assert "reconstruction" not in found
    assert any(one.startswith("Not known: you may not list the pods of node n1") for one in found["remarks"])


# --- owners ---------------------------------------------------------------------------------


def storm() -> list[dict[str, Any]]:
    """Refused pods of a Deployment in two sizes, on two nodes."""
    pods = [
        pod(f"web-7d4b9-{letter}", 30 + at, 8, refused=True, owner="ReplicaSet web-7d4b9")
        for at, letter in enumerate("abc")
    ]
    pods.append(pod("web-5c111-z", 20, 12, refused=True, owner="ReplicaSet web-5c111"))
    elsewhere = pod("web-7d4b9-y", 10, 8, refused=True, owner="ReplicaSet web-7d4b9")
    elsewhere["spec"]["nodeName"] = "n2"
    return [*pods, elsewhere, pod("other-1", 40, 8, refused=True, owner="ReplicaSet web-other-1")]


@pytest.mark.parametrize("word", ["deploy/web", "deployment/web", "Deployments.apps/web", "web"])
def test_a_deployment_stands_for_its_refused_pods(here: Here, word: str) -> None:
    here.state.owners = [
        owner("Deployment", "web"),
        *(owner("ReplicaSet", f"web-{x}", parent="Deployment web") for x in ("7d4b9", "5c111")),
    ]
    here.state.pods = storm()
    found = here.told(word)
    assert [one["name"] for one in found] == ["web-7d4b9-c", "web-5c111-z", "web-7d4b9-y"]
    assert (
        "It stands for 3 pods of Deployment web that this node refused for this reason "
        f"from {clock(30)} to {clock(32)}" in found[0]["remarks"]
    )


def test_two_words(here: Here) -> None:
    here.state.pods = [pod("a", 10), pod("b", 11)]
    assert [one["name"] for one in here.told("pods", "a", "b")] == ["a", "b"]


@pytest.mark.parametrize(("kind", "word", "made"), [
    pytest.param("StatefulSet", "sts/db",          "StatefulSet db",   id="statefulset"),
    pytest.param("DaemonSet",   "ds/db",           "DaemonSet db",     id="daemonset"),
    pytest.param("ReplicaSet",  "rs/db",           "ReplicaSet db",    id="replicaset"),
    pytest.param("Job",         "job/db",          "Job db",           id="job"),
    pytest.param("CronJob",     "cj/db",           "Job db-29384400",  id="cronjob"),
    pytest.param("ReplicationController", "rc/db", "ReplicationController db", id="replicationcontroller"),
])  # fmt: skip
def test_every_kind_of_owner(here: Here, kind: str, word: str, made: str) -> None:
    here.state.owners = [owner(kind, "db")]
    if kind == "CronJob":
        here.state.owners.append(owner("Job", "db-29384400", parent="CronJob db"))
    here.state.pods = [pod("db-x", 30, 8, refused=True, owner=made), pod("db-y", 40, 8, owner="Job other")]
    (found,) = here.told(word)
    assert (found["name"], found["verdict"]) == ("db-x", "rejected")


def test_replica_sets_that_may_not_be_seen(here: Here) -> None:
    here.state.owners = [owner("Deployment", "web")]
    here.state.forbidden = {"/replicasets"}
    here.state.pods = storm()
    names = [one["name"] for one in here.told("deploy/web")]
    assert names[0] == "other-1" or "web-7d4b9-c" in names


def test_an_owner_of_pods_that_run(here: Here) -> None:
    here.state.owners = [owner("StatefulSet", "db")]
    here.state.pods = [pod("db-0", 10, 2, owner="StatefulSet db"), pod("db-1", 11, 2, owner="StatefulSet db")]
    (found,) = here.told("sts/db")
    assert (found["name"], found["verdict"]) == ("db-1", "admitted")
    assert "StatefulSet db has 2 pods, none of which was refused; this is the newest" in found["remarks"]


def test_an_owner_without_pods_is_judged_by_its_template(here: Here) -> None:
    here.state.owners = [owner("Job", "big", 8)]
    here.state.events = [event("big", "FailedCreate", 20, "Job", "exceeded quota: compute")]
    (found,) = here.told("job/big", machine=False)
    assert (found["verdict"], found["name"]) == ("not scheduled", "big")
    assert "Job big has no pods; this is its template" in found["remarks"]
    assert "FailedCreate: exceeded quota: compute" in found["remarks"]
    here.state.pods = [pod("a", 10, 2)]
    (found,) = here.told("job/big", "--node-name", "n1")
    assert (found["verdict"], found["reconstruction"]["pods"]) == ("rejected", 1)
    assert found["reconstruction"]["reproduced"] is None


def test_a_name_that_two_owners_have(here: Here) -> None:
    here.state.owners = [owner("Deployment", "web"), owner("StatefulSet", "web")]
    ran = here.why("web")
    assert (ran.status, ran.out) == (2, "")
    assert "'web' may be deployment/web or statefulset/web in namespace 'ml'; write deployment/web" in ran.err


def test_names_that_are_not_there(here: Here) -> None:
    here.state.pods = [pod("train-0", 10)]
    ran = here.why("pod/trian-0")
    assert (ran.status, ran.err.count("\n")) == (5, 1)
    assert (
        "there is no pod 'trian-0' in namespace 'ml', and no event about it; did you mean train-0?" in ran.err
    )
    ran = here.why("deploy/nope")
    assert ran.err == "numawise: there is no Deployment 'nope' in namespace 'ml'\n"
    ran = here.why("deploment/nope")
    assert ran.status == 2
    assert "did you mean deployment/nope?" in ran.err
    ran = here.why("pod/Nope_")
    assert ran.status == 2
    assert "is not a valid Kubernetes name" in ran.err


def test_a_bare_name_without_a_cluster(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    ran = numawise(capsys, "why", "train-0")
    assert ran.status == 2
    assert "there is no file 'train-0', and no cluster is known here to look for it" in ran.err


# --- pods that are gone, and pods that wait ---------------------------------------------------


def test_the_template_stands_for_a_pod_that_is_gone(here: Here) -> None:
    here.state.owners = [owner("ReplicaSet", "web-7d4b9", 8)]
    here.state.events = [event("web-7d4b9-abcde", TOPOLOGY, 30, message=MESSAGE)]
    here.state.pods = [pod("a", 10, 2)]
    (found,) = here.told("pod/web-7d4b9-abcde")
    assert (found["verdict"], found["reason"]) == ("rejected", TOPOLOGY)
    assert found["reconstruction"]["reproduced"] is True
    assert (
        "Pod web-7d4b9-abcde is gone and was not replaced; the template of ReplicaSet web-7d4b9 stands for it"
        in found["remarks"]
    )


def test_a_pod_whose_earlier_self_was_refused(here: Here) -> None:
    here.state.pods = [pod("db-0", 40, 2, owner="StatefulSet db")]
    here.state.events = [event("db-0", TOPOLOGY, 30, message="Resources cannot be allocated") | {"count": 7}]
    (found,) = here.told("pod/db-0")
    assert found["verdict"] == "admitted"
    assert (
        f"A pod of this name was refused 7 times, last at {clock(30)}: TopologyAffinityError: Resources cannot be allocated"
        in found["remarks"]
    )


def test_a_pod_that_waits_for_a_node(here: Here) -> None:
    waiting = pod("wait", 10, 8, phase="Pending")
    del waiting["spec"]["nodeName"]
    here.state.pods = [waiting, pod("a", 5, 2)]
    here.state.events = [
        event("wait", "FailedScheduling", 20, message="0/3 nodes are available: 3 cannot align pod")
    ]
    (found,) = here.told("pod/wait", machine=False)
    assert found["verdict"] == "not scheduled"
    assert found["cluster"]["scheduler"] == "FailedScheduling: 0/3 nodes are available: 3 cannot align pod"
    (found,) = here.told("pod/wait", "--node-name", "n1")
    assert (found["verdict"], found["reconstruction"]["node"]) == ("rejected", "n1")


@pytest.mark.parametrize("change", [
    pytest.param({"status": "x"},                          id="status is text"),
    pytest.param({"metadata": {"name": "a", "namespace": "ml", "ownerReferences": "x", "annotations": 3}}, id="owners are text"),
    pytest.param({"status": {"phase": "Failed", "reason": TOPOLOGY, "message": "\x1b[31mred", "startTime": 7}}, id="steering"),
    pytest.param({"status": {"containerStatuses": "x", "conditions": [3]}}, id="statuses are text"),
])  # fmt: skip
def test_objects_of_another_shape(here: Here, change: dict[str, Any]) -> None:
    here.state.pods = [pod("a", 10) | change, pod("b", 11)]
    for name in ("a", "b"):
        ran = here.why(f"pod/{name}")
        assert ran.status in (0, 1, 5), ran
        assert "internal error" not in ran.err
        assert "\x1b" not in ran.out + ran.err


# --- by what the kubelet lists --------------------------------------------------------------


def listed(*pods: tuple[str, list[int], list[str]]) -> dict[str, Any]:
    """Answers of PodResources: names, CPUs and devices."""
    homes = {f"g{number}": number // 2 for number in range(4)}

    def device(name: str) -> dict[str, Any]:
        nodes = [{"ID": str(homes[name])}]
        return {"resourceName": "example.com/gpu", "deviceIds": [name], "topology": {"nodes": nodes}}

    rows = [
        {
            "name": name,
            "namespace": "ml",
            "containers": [
                {
                    "name": "c",
                    "cpuIds": [str(cpu) for cpu in cpus],
                    "devices": [device(one) for one in devices],
                }
            ],
        }
        for name, cpus, devices in pods
    ]
    return {"List": {"podResources": rows}, "Allocatable": {"devices": [device(one) for one in homes]}}


def test_what_the_kubelet_lists_counts(here: Here) -> None:
    """In order of start ``a`` would be on NUMA 0; it is on NUMA 1, and ``gone`` holds nothing."""
    here.state.pods = [pod("a", 10, 4, 1), pod("gone", 11, 4), pod("late", 30, 8, refused=True)]
    (here.folder / "listed.json").write_text(json.dumps(listed(("a", [12, 13, 14, 15], ["g3"]))))
    (found,) = here.told("pod/late", "--pod-resources", here.folder / "listed.json")
    basis = found["reconstruction"]
    assert basis["state"] == "the 2 pods that ran there then, with what its kubelet lists (PodResources)"
    (cpus,) = (one for one in found["round"]["hints"] if one["resource"] == "cpu")
    assert [place["free"] for place in cpus["numa"]] == [7, 3]
    (found,) = here.told("pod/a", "--pod-resources", here.folder / "listed.json")
    assert "NUMA 1: 4 CPUs (12-15), example.com/gpu g3" in found["answer"]


def test_what_is_listed_and_the_machine_has_not(here: Here) -> None:
    here.state.pods = [pod("a", 10, 1), pod("late", 30, 8, refused=True)]
    (here.folder / "listed.json").write_text(json.dumps(listed(("a", [99], []))))
    ran = here.why("pod/late", "--pod-resources", here.folder / "listed.json")
    assert (ran.status, ran.out) == (2, "")
    assert "CPU 99, which PodResources lists, is not on this machine; give both answers" in ran.err


def test_the_socket_of_the_node_that_we_are_on(tmp_path: Path) -> None:
    node = {"metadata": {"name": "n1"}, "status": {"nodeInfo": {"machineID": "abc"}}}
    with TemporaryDirectory(prefix="k") as short:  # a socket's path has at most 107 characters
        root = Path(short)
        (root / "etc").mkdir(parents=True)
        (root / "etc/machine-id").write_text("abc\n")
        assert is_here(node, root)
        assert not is_here(node | {"status": {}}, root)
        assert not is_here(node, tmp_path)
        assert socket_answers(root) is None
        folder = root / "var/lib/kubelet/pod-resources"
        folder.mkdir(parents=True)
        with kubelet(folder / "kubelet.sock", messages):
            answers = socket_answers(root)
    assert answers is not None
    assert [one.name for one in answers.pods or ()] == ["train"]
