"""Virtual nodes at an API server: registered, alive, deciding on pods, recovered, removed; never another's."""

import asyncio
import io
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import pytest

from numawise.apps.lab.floor import LabFloor
from numawise.apps.lab.node_object import LABEL, MADE_BY, NodeLook
from numawise.apps.lab.plan import FOREIGN, NOTHING, LabPlan, PublishPlan
from numawise.apps.lab.rights import LAB_RIGHTS
from numawise.apps.lab.run import remove
from numawise.codec.publication import NODE_ATTRIBUTE, STATE_ATTRIBUTE, publication_from
from numawise.errors import ClusterError
from numawise.kube.client import access_to
from numawise.service.log import ServiceLog
from numawise.service.rights import rules_of
from tests.cli.run import program
from tests.kube.rbac import Rules
from tests.kube.server import Server, State, kubeconfig, serving
from tests.unit.cluster.live_objects import api_node, api_pod
from tests.unit.cluster.nodes import kubelet
from tests.waiting import until

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
NODES = ("v1", "v2", "v3")


@pytest.fixture
def state() -> State:
    state = State(nodes={"real": api_node("real")})
    state.put_pod(api_pod("elsewhere", 1, "real"))
    return state


class Lab:
    """A lab that runs in a thread of its own."""

    def __init__(self, folder: Path, address: str, names: tuple[str, ...] = NODES, **more: Any) -> None:
        access = access_to(str(kubeconfig(folder / "config", address)), "")
        look = NodeLook(more.pop("lab", "lab"), {})
        self.plan = LabPlan(access, {name: kubelet() for name in names}, look, heartbeat=1.0, **more)
        self.text = io.StringIO()
        self.problem: BaseException | None = None
        self.floor: LabFloor | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            asyncio.run(self._live())
        except BaseException as problem:  # noqa: BLE001 - the test looks at it
            self.problem = problem

    async def _live(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        floor = LabFloor(self.plan, ServiceLog(self.text, structured=False))
        await floor.start()
        tasks = [asyncio.create_task(one) for one in floor.tasks()]
        self.floor = floor
        await self._end.wait()
        for task in tasks:
            task.cancel()
        await floor.stop()

    def __enter__(self) -> Self:
        self._thread.start()
        until(
            lambda: self.problem is not None or (self.floor is not None and not self.floor.missing()),
            "it runs",
        )
        assert self.problem is None, self.problem
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()


def status_of(state: State, uid: str) -> dict[str, Any]:
    for pod in state.pods:
        if pod["metadata"]["uid"] == uid:
            return dict(pod["status"])
    return {}


def phase(state: State, uid: str) -> Callable[[], object]:
    return lambda: status_of(state, uid).get("phase") not in (None, "Pending")


def deleted(state: State, uid: str) -> None:
    """Somebody deletes a pod, with the usual grace period."""
    pod = next(one for one in state.pods if one["metadata"]["uid"] == uid)
    metadata = {
        **pod["metadata"],
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 30,
    }
    state.put_pod({**pod, "metadata": metadata})


def annotated(pod: dict[str, Any], **notes: str) -> dict[str, Any]:
    pod["metadata"]["annotations"] = {
        f"numawise.dev/{name.replace('_', '-')}": text for name, text in notes.items()
    }
    return pod


def written_pods(state: State) -> set[str]:
    """Names of the pods that somebody wrote to."""
    paths = [path.split("?")[0].split("/") for _, path, _ in state.written]
    return {parts[parts.index("pods") + 1] for parts in paths if "pods" in parts}


# --- nodes ----------------------------------------------------------------------------------------


def test_nodes_are_registered_alive_and_published(server: Server, state: State, tmp_path: Path) -> None:
    with Lab(tmp_path, server.address):
        until(lambda: len(state.topologies) == 3, "published")
        node = state.nodes["v2"]
        assert node["metadata"]["labels"][LABEL] == "true"
        assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "v2"
        assert node["metadata"]["annotations"] == {MADE_BY: "lab"}
        assert node["status"]["capacity"]["cpu"] == "16"
        assert node["status"]["allocatable"] | {"cpu": "14", "x/gpu": "8"} == node["status"]["allocatable"]
        ready = [one["status"] for one in node["status"]["conditions"] if one["type"] == "Ready"]
        assert ready == ["True"]
        lease = state.kept[f"{LEASES}/v2"]
        assert lease["metadata"]["ownerReferences"][0]["uid"] == node["metadata"]["uid"]
        first = lease["spec"]["renewTime"]
        until(lambda: state.kept[f"{LEASES}/v2"]["spec"]["renewTime"] > first, "renewed")
        assert state.nodes["real"] == api_node("real") | {"metadata": state.nodes["real"]["metadata"]}


def test_a_node_that_somebody_else_made_is_not_touched(server: Server, state: State, tmp_path: Path) -> None:
    lab = Lab(tmp_path, server.address, ("v1", "real"))
    lab._thread.start()
    lab._thread.join()
    assert isinstance(lab.problem, ClusterError)
    assert "node real was not made by a lab" in str(lab.problem)
    assert state.written == []


def test_two_labs_do_not_touch_each_others_nodes(server: Server, tmp_path: Path) -> None:
    with Lab(tmp_path, server.address, ("v1",), lab="one"):
        other = Lab(tmp_path, server.address, ("v1",), lab="two")
        other._thread.start()
        other._thread.join()
        assert "made by lab 'one'" in str(other.problem)


def test_a_cluster_without_the_definition_is_told_what_to_do(
    server: Server, state: State, tmp_path: Path
) -> None:
    state.topology_versions = ()
    lab = Lab(tmp_path, server.address)
    lab._thread.start()
    lab._thread.join()
    assert isinstance(lab.problem, ClusterError)
    assert "--publish none" in lab.problem.advice
    with Lab(tmp_path, server.address, publish=PublishPlan(NOTHING)):
        assert set(state.nodes) == {"real", *NODES}


def test_a_node_that_is_deleted_stays_away(server: Server, state: State, tmp_path: Path) -> None:
    with Lab(tmp_path, server.address) as lab:
        with state.changed:
            state.happened("nodes", "DELETED", state.nodes.pop("v1"))
        until(lambda: "was deleted" in lab.text.getvalue(), "it is seen")
        assert lab.floor is not None
        assert set(lab.floor.kubelets) == {"v2", "v3"}


# --- pods -----------------------------------------------------------------------------------------


def test_pods_run_or_fail_and_others_are_left_alone(server: Server, state: State, tmp_path: Path) -> None:
    with Lab(tmp_path, server.address):
        state.put_pod(api_pod("a", 3, "v1"))
        state.put_pod(api_pod("b", 4, "v1"))
        state.put_pod(api_pod("c", 2, "v1"))
        state.put_pod(api_pod("unbound", 2))
        state.put_pod(api_pod("foreign", 2, "real"))
        until(lambda: all(phase(state, uid)() for uid in "abc"), "all are decided on")
        assert [status_of(state, uid)["phase"] for uid in "abc"] == ["Running", "Running", "Failed"]
        assert status_of(state, "c")["reason"] == "TopologyAffinityError"
        until(lambda: state.events, "an Event tells it")
        assert state.events[0]["note"] == "Resources cannot be allocated with Topology locality"
        assert written_pods(state) == set("abc")


def test_a_pod_ends_by_its_annotation(server: Server, state: State, tmp_path: Path) -> None:
    with Lab(tmp_path, server.address, factor=1000.0) as lab:
        state.put_pod(annotated(api_pod("a", 4, "v1"), run_seconds="20"))
        until(lambda: status_of(state, "a").get("phase") == "Succeeded", "it has ended")
        assert lab.floor is not None
        assert "a" not in lab.floor.kubelets["v1"].node.state.active


def test_a_deleted_pod_goes(server: Server, state: State, tmp_path: Path) -> None:
    with Lab(tmp_path, server.address):
        state.put_pod(api_pod("a", 4, "v1"))
        until(phase(state, "a"), "it runs")
        deleted(state, "a")
        until(lambda: not status_of(state, "a"), "it is removed")
        (body,) = [body for method, path, body in state.written if method == "DELETE" and "/pods/" in path]
        assert body == {"gracePeriodSeconds": 0, "preconditions": {"uid": "a"}}


def test_a_pod_that_was_made_anew_is_not_the_old_one(server: Server, state: State, tmp_path: Path) -> None:
    """A status for a pod that is gone never reaches its successor of the same name."""
    with Lab(tmp_path, server.address):
        late = annotated(api_pod("a", 1, "v1"), run_seconds="1")
        state.put_pod(late)
        until(phase(state, "a"), "it runs")
        with state.changed:
            state.put_pod(late, "DELETED")
            fresh = api_pod("b", 1, "v1")
            fresh["metadata"]["name"] = "a"
            state.put_pod(fresh)
        until(phase(state, "b"), "the new one runs")
        assert status_of(state, "b")["phase"] == "Running"


def test_a_kubelet_restarts_on_request(server: Server, state: State, tmp_path: Path) -> None:
    with Lab(tmp_path, server.address) as lab:
        state.put_pod(api_pod("a", 2, "v1"))
        until(phase(state, "a"), "it runs")
        node = json.loads(json.dumps(state.nodes["v1"]))
        node["metadata"]["annotations"]["numawise.dev/restart"] = "1"
        state.put_node(node)
        until(lambda: "a kubelet is restarted" in lab.text.getvalue(), "restarted")
        assert status_of(state, "a")["phase"] == "Running"


# --- what is published ----------------------------------------------------------------------------


def texts(state: State, node: str) -> dict[str, str]:
    return {one["name"]: one["value"] for one in state.topologies.get(node, {}).get("attributes", ())}


def test_what_is_published_is_the_state(server: Server, state: State, tmp_path: Path) -> None:
    with Lab(tmp_path, server.address) as lab:
        state.put_pod(api_pod("a", 3, "v1"))

        def same() -> bool:
            publication = publication_from(texts(state, "v1"))
            assert lab.floor is not None
            now = lab.floor.kubelets["v1"].node.state
            return publication is not None and "a" in now.active and publication.state.cpu == now.cpu

        until(lambda: "v1" in state.topologies and same(), "it is published")
        assert {one["manager"] for one in state.topologies["v1"]["metadata"]["managedFields"]} == {
            "numawise-lab"
        }


def test_published_as_others_do(server: Server, state: State, tmp_path: Path) -> None:
    with Lab(tmp_path, server.address, publish=PublishPlan(FOREIGN)):
        until(lambda: len(state.topologies) == 3, "published")
        assert "topologyManagerPolicy" in texts(state, "v1")
        assert not {NODE_ATTRIBUTE, STATE_ATTRIBUTE} & set(texts(state, "v1"))
        assert state.topologies["v1"]["zones"]


def test_publications_are_lost(server: Server, state: State, tmp_path: Path) -> None:
    with Lab(tmp_path, server.address, publish=PublishPlan(loss=1.0)) as lab:
        state.put_pod(api_pod("a", 3, "v1"))
        until(phase(state, "a"), "it runs")
        assert lab.floor is not None
        until(lambda: lab.floor is not None and lab.floor.lost >= 4, "all are lost")
        assert state.topologies == {}


# --- faults ---------------------------------------------------------------------------------------


def test_a_lab_that_starts_again_goes_on(server: Server, state: State, tmp_path: Path) -> None:
    with Lab(tmp_path, server.address) as lab:
        for uid, gpus in (("a", 1), ("b", 3), ("c", 4)):
            state.put_pod(api_pod(uid, gpus, "v1"))
        until(lambda: all(phase(state, uid)() for uid in "abc"), "they run")
        deleted(state, "a")
        until(lambda: not status_of(state, "a"), "one is gone")
        assert lab.floor is not None
        before = lab.floor.kubelets["v1"].node.state
        until(lambda: "a" not in _published_pods(state), "that is published")
    state.put_pod(api_pod("while", 4, "v1"))
    state.written.clear()
    with Lab(tmp_path, server.address) as lab:
        until(phase(state, "while"), "what came meanwhile is decided on")
        assert status_of(state, "while")["reason"] == "TopologyAffinityError"
        assert written_pods(state) == {"while"}
        assert lab.floor is not None
        now = lab.floor.kubelets["v1"].node.state
        assert {uid: now.cpu.assignments.get(uid) for uid in "bc"} == {
            uid: before.cpu.assignments.get(uid) for uid in "bc"
        }
        assert set(now.active) == {"b", "c"}


def _published_pods(state: State) -> set[str]:
    publication = publication_from(texts(state, "v1"))
    return set(publication.state.active) if publication is not None else set()


def test_a_server_that_restarts(state: State, tmp_path: Path) -> None:
    with serving(state) as first:
        port = first.server_port
        lab = Lab(tmp_path, first.address)
        lab.__enter__()
        state.put_pod(api_pod("a", 1, "v1"))
        until(phase(state, "a"), "it runs")
    state.put_pod(api_pod("b", 1, "v2"))
    until(lambda: "cannot be reached" in lab.text.getvalue(), "nobody is there")
    with serving(state, port=port):
        until(phase(state, "b"), "it goes on")
        with state.changed:
            state.pods.append(api_pod("c", 1, "v3"))  # an event of it was never sent
            state.happened("pods", "ERROR", {"kind": "Status", "code": 410})
        until(phase(state, "c"), "the list is read again")
        lab.__exit__()


def test_a_right_that_is_missing_is_said_once(server: Server, state: State, tmp_path: Path) -> None:
    with Lab(tmp_path, server.address) as lab:
        state.forbidden = {"/status"}
        state.put_pod(api_pod("a", 1, "v1"))
        until(lambda: "you may not patch the status of pods" in lab.text.getvalue(), "it is said")
        assert status_of(state, "a")["phase"] == "Pending"


def test_exactly_its_rights(server: Server, state: State, tmp_path: Path) -> None:
    state.rules = Rules(rules_of(LAB_RIGHTS))
    with Lab(tmp_path, server.address):
        state.put_pod(api_pod("a", 4, "v1"))
        state.put_pod(api_pod("b", 9, "v1"))
        until(lambda: phase(state, "a")() and phase(state, "b")(), "decided on")
        until(lambda: state.events, "an Event")
        deleted(state, "a")
        until(lambda: not status_of(state, "a"), "it is removed")
        until(lambda: ("coordination.k8s.io", "leases", "patch") in state.rules.used, "a heartbeat")
    with Lab(tmp_path, server.address):
        pass
    remove(access_to(str(tmp_path / "config"), ""), "lab", (), time.time, lambda _: None)
    assert state.rules.refused == []
    seldom = {("", "nodes", "get"), ("", "nodes", "patch"), ("events.k8s.io", "events", "patch")}
    assert state.rules.rights - state.rules.used <= seldom | {
        ("topology.node.k8s.io", "noderesourcetopologies", "create")
    }


# --- the end --------------------------------------------------------------------------------------


def test_remove_takes_its_own_and_no_others(server: Server, state: State, tmp_path: Path) -> None:
    with Lab(tmp_path, server.address):
        until(lambda: len(state.topologies) == 3 and f"{LEASES}/v3" in state.kept, "all is there")
    config = str(tmp_path / "config")
    state.put_node(api_node("like") | {"metadata": {"name": "like", "uid": "x", "labels": {LABEL: "true"}}})
    ended = program("lab", "--remove", "--kubeconfig", config, "--lab", "other")
    assert (ended.status, ended.err) == (0, "numawise: 0 nodes are deleted\n")
    ended = program("lab", "--remove", "--kubeconfig", config)
    assert (ended.status, ended.err) == (0, "numawise: 3 nodes are deleted\n")
    assert set(state.nodes) == {"real", "like"}
    assert state.topologies == {}
    assert not [path for path in state.kept if "/leases/" in path]
