"""What the agent writes at an API server: applied objects and their owners, conditions, taints, Events."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from numawise.errors import ClusterError
from numawise.kube.client import ApiConflict, ApiRefused, Cluster, access_to
from numawise.kube.events import BURST, NORMAL, REFILL, ObjectReference
from numawise.kube.writer import MANAGER, ClusterWriter, NodeCondition, NoDefinition, OtherOwner
from tests.kube.server import Server, State, kubeconfig

NODE = ObjectReference("Node", "n1", uid="u-1")


def owners_of(value: Any) -> tuple[str, ...]:
    """The field managers of an object, without us."""
    names = (one["manager"] for one in value["metadata"].get("managedFields", ()))
    return tuple(dict.fromkeys(name for name in names if name != MANAGER))


def topology(cpus: int) -> dict[str, Any]:
    amount = {"name": "cpu", "capacity": "8", "allocatable": "8", "available": str(cpus)}
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": "n1"},
        "zones": [{"name": "node-0", "type": "Node", "resources": [amount]}],
    }


@pytest.fixture
def state() -> State:
    return State(nodes={"n1": {"metadata": {"name": "n1", "resourceVersion": "1"}}})


@pytest.fixture
def writer(server: Server, tmp_path: Path) -> Iterator[ClusterWriter]:
    with Cluster(access_to(str(kubeconfig(tmp_path / "config", server.address)), "")) as cluster:
        yield ClusterWriter(cluster, "n1", clock=lambda: 1000.0)


def test_an_object_is_made_and_changed(writer: ClusterWriter, state: State) -> None:
    first = writer.apply_topology(topology(8))
    again = writer.apply_topology(topology(6), first["metadata"]["resourceVersion"])
    assert state.topologies["n1"]["zones"] == topology(6)["zones"]
    assert writer.topology_version() == again["metadata"]["resourceVersion"]
    assert owners_of(writer.topology()) == ()


def test_somebody_elses_change_is_seen(writer: ClusterWriter) -> None:
    first = writer.apply_topology(topology(8))
    writer.apply_topology(topology(6))
    with pytest.raises(ApiConflict, match="modified"):
        writer.apply_topology(topology(4), first["metadata"]["resourceVersion"])


def test_an_object_of_another_producer_is_left_alone(writer: ClusterWriter, state: State) -> None:
    theirs = topology(3)
    theirs["metadata"] |= {"resourceVersion": "5", "managedFields": [{"manager": "nfd"}]}
    state.topologies["n1"] = {**theirs, "owners": {"zones": "nfd"}}
    with pytest.raises(
        OtherOwner, match="published by nfd; let one program publish it, or give --force-ownership"
    ):
        writer.apply_topology(topology(8))
    assert state.topologies["n1"]["zones"] == topology(3)["zones"]
    assert owners_of(writer.topology()) == ("nfd",)
    writer.apply_topology(topology(8), force=True)
    assert state.topologies["n1"]["zones"] == topology(8)["zones"]


def test_without_a_definition_the_command_is_named(writer: ClusterWriter, state: State) -> None:
    state.topology_versions = ()
    with pytest.raises(NoDefinition, match=r"--definition \| kubectl apply -f -"):
        writer.apply_topology(topology(8))


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        pytest.param({"token": "another"}, ClusterError, "does not know who you are", id="401"),
        pytest.param(
            {"forbidden": {"noderesourcetopologies"}},
            ApiRefused,
            "you may not apply noderesourcetopology n1",
            id="403",
        ),
    ],
)
def test_refusals_are_one_sentence(
    writer: ClusterWriter, state: State, change: dict[str, Any], error: type[ClusterError], words: str
) -> None:
    for name, value in change.items():
        setattr(state, name, value)
    with pytest.raises(error, match=words):
        writer.apply_topology(topology(8))


def test_one_condition_is_written_among_others(writer: ClusterWriter, state: State) -> None:
    state.nodes["n1"]["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}
    writer.set_condition(NodeCondition("Published", "False", "NoState", "why"))
    writer.set_condition(NodeCondition("Published", "False", "NoPods", "else"), changed=False)
    ready, own = state.nodes["n1"]["status"]["conditions"]
    assert ready == {"type": "Ready", "status": "True"}
    assert own == {
        "type": "Published",
        "status": "False",
        "reason": "NoPods",
        "message": "else",
        "lastHeartbeatTime": "1970-01-01T00:16:40Z",
        "lastTransitionTime": "1970-01-01T00:16:40Z",
    }


def test_only_the_taint_of_a_key_is_removed(writer: ClusterWriter, state: State) -> None:
    mine = {"key": "example.com/starting", "effect": "NoSchedule"}
    other = {"key": "example.com/starting-too", "effect": "NoSchedule"}
    state.nodes["n1"]["spec"] = {"taints": [other, mine, {**mine, "effect": "NoExecute"}]}
    assert writer.remove_taint("example.com/starting")
    assert state.nodes["n1"]["spec"]["taints"] == [other]
    assert not writer.remove_taint("example.com/starting")


def test_a_taint_is_not_removed_over_somebody_elses_change(
    writer: ClusterWriter, state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = {"key": "example.com/starting", "effect": "NoSchedule"}
    late = {"key": "late", "effect": "NoExecute"}
    state.nodes["n1"]["spec"] = {"taints": [mine]}
    before = writer.node_object()
    state.put_node({"metadata": {"name": "n1"}, "spec": {"taints": [mine, late]}})
    monkeypatch.setattr(ClusterWriter, "node_object", lambda _: before)
    with pytest.raises(ApiConflict):
        writer.remove_taint("example.com/starting")
    assert state.nodes["n1"]["spec"]["taints"] == [mine, late]


def test_an_event_that_happens_again_is_counted(writer: ClusterWriter, state: State) -> None:
    assert writer.events.tell(NODE, "Drift", "CPU 3 is gone")
    assert writer.events.tell(NODE, "Drift", "CPU 3 is gone")
    assert writer.events.tell(NODE, "Settled", "all is well", NORMAL)
    first, second = state.events
    assert first["series"]["count"] == 2
    assert first["regarding"] == {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u-1"}
    assert (second["type"], second["note"], "series" in second) == ("Normal", "all is well", False)
    assert len(first["note"].encode()) < 1024


def test_an_event_that_is_gone_is_sent_again(writer: ClusterWriter, state: State) -> None:
    writer.events.tell(NODE, "Drift", "CPU 3 is gone")
    state.events.clear()
    writer.events.tell(NODE, "Drift", "CPU 3 is gone")
    assert len(state.events) == 1


def test_events_of_an_object_are_limited(writer: ClusterWriter, state: State) -> None:
    sent = [
        writer.events.tell(NODE, "Drift", f"number {number} " + "ä" * 2000) for number in range(BURST + 5)
    ]
    assert sent == [True] * BURST + [False] * 5
    assert all(len(one["note"].encode()) <= 1024 for one in state.events)
    writer.events.clock = lambda: 1000.0 + REFILL
    assert writer.events.tell(NODE, "Drift", "later")
    assert not writer.events.tell(NODE, "Drift", "too soon")
    assert writer.events.tell(ObjectReference("Pod", "a", "ml"), "Drift", "another object")
