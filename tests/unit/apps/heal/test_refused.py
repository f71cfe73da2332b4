"""Which pods count as refused, and to whom they belong."""

from typing import Any

import pytest

from numawise.apps.heal.refused import controller_of, is_held, refused_pod
from tests.unit.apps.heal.pods import held, pod, refused

RUNNING = {"name": "c", "state": {"running": {"startedAt": "x"}}}
ENDED = {"name": "c", "state": {"terminated": {"exitCode": 1}}}
WAITING = {"name": "c", "state": {"waiting": {"reason": "ContainerCreating"}}, "restartCount": 0}


@pytest.mark.parametrize("reason", [
    "TopologyAffinityError", "SMTAlignmentError", "UnexpectedAdmissionError", "EmptyPodSharedPoolError",
    "OutOfcpu", "OutOfnvidia.com/gpu", "NodeAffinity", "Topology Affinity Error",
])  # fmt: skip
def test_reasons_of_an_admission(reason: str) -> None:
    assert refused_pod(pod(reason=reason)) is not None


@pytest.mark.parametrize(("what", "value"), [
    pytest.param("runs",                 pod(phase="Running"),                            id="runs"),
    pytest.param("failed by itself",     pod(reason="Error"),                             id="failed by itself"),
    pytest.param("evicted",              pod(reason="Evicted"),                           id="evicted"),
    pytest.param("no reason",            pod(reason=""),                                  id="no reason"),
    pytest.param("no node",              pod(node=""),                                    id="never bound"),
    pytest.param("ran",                  pod(containerStatuses=[ENDED]),                  id="a container ended"),
    pytest.param("runs still",           pod(containerStatuses=[RUNNING]),                id="a container runs"),
    pytest.param("an init ran",          pod(initContainerStatuses=[ENDED]),              id="an init container ended"),
    pytest.param("restarted",            pod(containerStatuses=[WAITING | {"restartCount": 1}]), id="restarted"),
    pytest.param("reason is a list",     pod(reason=["TopologyAffinityError"]),           id="a reason that is no text"),  # type: ignore[arg-type]
    pytest.param("endless reason",       pod(reason="OutOf" + "x" * 10_000),              id="an endless reason"),
    pytest.param("name with a slash",    pod("../../nodes/n1"),                           id="a name that is a path"),
    pytest.param("node with a slash",    pod(node="n1/proxy"),                            id="a node that is a path"),
    pytest.param("nothing",              {},                                              id="nothing"),
    pytest.param("parts of other kinds", {"metadata": [], "spec": 1, "status": "Failed"}, id="other shapes"),
])  # fmt: skip
def test_no_refused_pod(what: str, value: dict[str, Any]) -> None:
    assert refused_pod(value) is None, what


def test_a_pod_that_only_waited_was_refused() -> None:
    assert refused_pod(pod(containerStatuses=[WAITING])) is not None


@pytest.mark.parametrize(("owner", "revision", "key"), [
    (("ReplicaSet", "u1"),  "abc", "u1.abc"),
    (("StatefulSet", "u2"), "web-5", "u2.web-5"),
    (("Job", "u3"),         "",    "u3.none"),
    (("Job", "u3"),         "a b", "u3.none"),
])  # fmt: skip
def test_pods_belong_to_owner_and_revision(owner: tuple[str, str], revision: str, key: str) -> None:
    of = controller_of(pod(owner=owner, revision=revision))
    assert of is not None
    assert of.of.key == key


@pytest.mark.parametrize("change", [
    {"controller": False}, {"controller": "true"}, {"name": "../x"}, {"uid": "a/b"}, {"kind": "Replica Set"},
    {"apiVersion": "apps/v1/../../x"}, {"uid": None},
])  # fmt: skip
def test_an_owner_that_cannot_be_named_is_none(change: dict[str, object]) -> None:
    value = pod()
    value["metadata"]["ownerReferences"][0].update(change)
    assert controller_of(value) is None


def test_messages_of_pods_are_cut() -> None:
    assert len(refused(message="x" * 100_000).message) < 1000


def test_held_pods_have_our_gate_and_no_node() -> None:
    assert is_held(held())
    assert not is_held(pod(phase="Pending", gates=("example.com/other",)))
    leaving = held()
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert not is_held(leaving)
