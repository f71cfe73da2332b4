"""Lists of an API server, followed in a thread: what comes and goes, servers that end, refuse or forget."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from numawise.apps.agent.cluster_view import node_matters, pod_matters
from numawise.kube.client import PODS, Cluster, access_to
from numawise.kube.following import LONGEST_WAIT, FollowedObjects, back_off
from tests.kube.noded import pod
from tests.kube.server import Server, State, kubeconfig, serving
from tests.waiting import until


@pytest.fixture
def state() -> State:
    return State(pods=[pod("a"), {**pod("b"), "spec": {"nodeName": "another"}}])


class Followed:
    """The pods of node n1, and how often something was news."""

    def __init__(self, folder: Path, address: str) -> None:
        self.news = 0
        self.lock = threading.Lock()
        cluster = Cluster(access_to(str(kubeconfig(folder / "config", address)), ""))
        chosen = {"fieldSelector": "spec.nodeName=n1"}
        self.objects = FollowedObjects(cluster, PODS, "list pods", chosen, self.changed, pod_matters)
        self.objects.start()

    def changed(self) -> None:
        with self.lock:
            self.news += 1

    def names(self) -> list[str]:
        return sorted(one["metadata"]["name"] for one in self.objects.objects or ())


@pytest.fixture
def followed(server: Server, tmp_path: Path) -> Iterator[Followed]:
    made = Followed(tmp_path, server.address)
    yield made
    made.objects.stop()


def test_objects_come_change_and_go(followed: Followed, state: State) -> None:
    until(lambda: followed.names() == ["a"], "those of the node alone")
    assert followed.objects.synced
    value = pod("c")
    state.put_pod(value)
    until(lambda: followed.names() == ["a", "c"], "one more")
    before = followed.news
    state.put_pod({**value, "status": {"phase": "Running", "conditions": [{"type": "Ready"}]}})
    state.put_pod({**value, "status": {"phase": "Succeeded"}})
    until(lambda: followed.news > before, "it has ended")
    assert followed.news == before + 1  # its conditions were no news
    state.put_pod(value, "DELETED")
    until(lambda: followed.names() == ["a"], "it is gone")


def test_a_server_that_went_away_is_followed_again(state: State, tmp_path: Path) -> None:
    with serving(state) as server:
        port = server.server_port
        followed = Followed(tmp_path, server.address)
        until(lambda: followed.objects.synced, "in touch")
    until(lambda: not followed.objects.synced, "the server is gone")
    assert "cannot be reached" in followed.objects.problem
    assert followed.names() == ["a"]  # what was known
    state.put_pod(pod("c"))
    with serving(state, port=port):
        until(lambda: followed.names() == ["a", "c"], "in touch again")
        assert followed.objects.synced
        assert followed.objects.problem == ""
        followed.objects.stop()


def test_a_version_that_is_too_old_is_no_problem(followed: Followed, state: State) -> None:
    until(lambda: followed.objects.synced, "in touch")
    late = pod("late")
    with state.changed:
        state.pods.append(late)  # an event of it was never sent
        state.happened("pods", "ERROR", {"kind": "Status", "code": 410, "spec": {"nodeName": "n1"}})
    until(lambda: followed.names() == ["a", "late"], "the list was read again")
    assert followed.objects.problem == ""


def test_a_refusal_is_one_sentence(state: State, server: Server, tmp_path: Path) -> None:
    state.forbidden = {"/pods"}
    followed = Followed(tmp_path, server.address)
    until(lambda: followed.objects.problem, "the sentence")
    assert followed.objects.problem.startswith("you may not list pods (403)")
    assert followed.objects.objects is None
    followed.objects.stop()


@pytest.mark.parametrize(
    "answer", [b"[]", b'{"items": 5}', b'{"items": [5]}', b"{", b'{"items": [], "metadata": []}']
)
def test_an_answer_that_is_none_is_one_sentence(
    state: State, server: Server, tmp_path: Path, answer: bytes
) -> None:
    state.answers[PODS] = (200, "application/json", answer)
    followed = Followed(tmp_path, server.address)
    until(lambda: followed.objects.problem or followed.objects.synced, "a judgement")
    assert followed.objects.objects in (None, ())
    followed.objects.stop()


def test_waits_grow_and_stay_short() -> None:
    assert all(back_off(failures) <= LONGEST_WAIT for failures in range(100))
    assert back_off(0) < 0.3
    assert min(back_off(20) for _ in range(20)) >= LONGEST_WAIT / 2


def node(**changes: Any) -> dict[str, Any]:
    status = {
        "allocatable": {"cpu": "8"},
        "nodeInfo": {"kubeletVersion": "v1.36.4"},
        "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "1"}],
    }
    value: dict[str, Any] = {"metadata": {"name": "n1", "labels": {}}, "spec": {}, "status": status}
    value = json.loads(json.dumps(value))
    for way, inner in changes.items():
        at = value
        *steps, last = way.split("__")
        for step in steps:
            at = at[step]
        at[last] = inner
    return value


@pytest.mark.parametrize(
    ("after", "matters"),
    [
        pytest.param(node(), False, id="nothing"),
        pytest.param(node(status__conditions=[{"type": "Ready", "status": "True", "lastHeartbeatTime": "2"}]), False, id="a heartbeat"),
        pytest.param(node(status__images=["x"]), False, id="images"),
        pytest.param(node(status__conditions=[{"type": "Ready", "status": "False"}]), True, id="not ready"),
        pytest.param(node(status__allocatable={"cpu": "6"}), True, id="allocatable"),
        pytest.param(node(status__nodeInfo={"kubeletVersion": "v1.36.5"}), True, id="another kubelet"),
        pytest.param(node(spec__taints=[{"key": "x"}]), True, id="a taint"),
        pytest.param(None, True, id="gone"),
    ],
)  # fmt: skip
def test_what_matters_of_a_node(after: dict[str, Any] | None, matters: bool) -> None:  # noqa: FBT001
    assert node_matters(node(), after) is matters
