"""One virtual kubelet: what it decides, writes and releases, time given as numbers."""

from typing import Any

import pytest

from numawise.apps.lab.effects import PodAlarm, PodRemoval, RefusalEvent, StateChanged, StatusWrite
from numawise.apps.lab.kubelet import LabKubelet
from numawise.apps.lab.node_object import NodeLook, node_object
from numawise.codec.node import node_from
from numawise.codec.pod import pod_from
from numawise.node.node import restart, simulate
from numawise.request.model import Role
from numawise.values import replace
from tests.unit.cluster.live_objects import api_pod
from tests.unit.cluster.nodes import kubelet

RUN = "numawise.dev/run-seconds"


def lab(factor: float = 1.0) -> LabKubelet:
    return LabKubelet("n1", kubelet(), factor)


def annotated(pod: dict[str, Any], **notes: str) -> dict[str, Any]:
    names = {f"numawise.dev/{name.replace('_', '-')}": text for name, text in notes.items()}
    return {**pod, "metadata": {**pod["metadata"], "annotations": names}}


def status_in(effects: list[Any]) -> dict[str, Any]:
    (written,) = [effect.status for effect in effects if isinstance(effect, StatusWrite)]
    return dict(written)


def alarms(effects: list[Any]) -> list[float]:
    return [effect.at for effect in effects if isinstance(effect, PodAlarm)]


def seen(pod: dict[str, Any], status: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """A pod as the API server shows it once a status was written."""
    return {**pod, "status": status, "metadata": {**pod["metadata"], **metadata}}


# --- admission ------------------------------------------------------------------------------------


def test_decides_as_simulate_does() -> None:
    """The same verdicts, reasons, messages and state as one simulated kubelet, in the same order."""
    pods = [api_pod(f"p{number}", gpus, "n1") for number, gpus in enumerate((3, 4, 2, 1, 1, 4, 9))]
    node, virtual = kubelet(), lab()
    outcomes = simulate(node, [node.requested(pod_from(pod)) for pod in pods])
    statuses = [status_in(virtual.take(pod, 10.0)) for pod in pods]
    expected = [
        ("Running", None, None) if outcome.admitted else
        ("Failed", outcome.decision.reason, f"Pod was rejected: {outcome.decision.message}")
        for outcome in outcomes
    ]  # fmt: skip
    assert [(one["phase"], one.get("reason"), one.get("message")) for one in statuses] == expected
    assert {phase for phase, _, _ in expected} == {"Running", "Failed"}
    assert virtual.node.state == node.state
    assert (virtual.admitted, virtual.refused) == (
        sum(one.admitted for one in outcomes),
        7 - virtual.admitted,
    )


def test_a_refused_pod_is_failed_as_a_kubelet_fails_it() -> None:
    pod = api_pod("a", 9, "n1", qosClass="Guaranteed")
    effects = lab().take(pod, 1794826000.0)
    assert status_in(effects) == {
        "phase": "Failed",
        "reason": "TopologyAffinityError",
        "message": "Pod was rejected: Resources cannot be allocated with Topology locality",
        "startTime": "2026-11-16T10:46:40Z",
        "qosClass": "Guaranteed",
    }
    (event,) = [effect for effect in effects if isinstance(effect, RefusalEvent)]
    assert event.message == "Resources cannot be allocated with Topology locality"


def test_an_older_release_says_it_in_its_own_words() -> None:
    old = LabKubelet("n1", replace(kubelet(), version=(1, 25)))
    said = status_in(old.take(api_pod("a", 9, "n1"), 0.0))["message"]
    assert said == "Pod Resources cannot be allocated with Topology locality"


@pytest.mark.parametrize(("named", "shown"), [
    ("",        "v1.36.0"),
    ("1.36",    "v1.36.0"),
    ("v1.36.4", "v1.36.4"),
    ("1.36.4",  "v1.36.4"),
    ("1.30.2",  "v1.36.0"),  # of other nodes
])  # fmt: skip
def test_the_release_is_shown_as_it_was_named(named: str, shown: str) -> None:
    node = replace(kubelet(), version=(1, 36))
    made = node_object("n1", node, NodeLook("lab", {}, release=named), 0.0)
    assert made["status"]["nodeInfo"]["kubeletVersion"] == shown


def test_the_node_object_is_what_sums_and_labels_are_compared_with() -> None:
    virtual = lab()
    virtual.node.describe(node_from(node_object("n1", virtual.node, NodeLook("lab", {"pool": "a"}), 0.0)))
    wrong = api_pod("a", 0, "n1", spec={"nodeSelector": {"pool": "b"}})
    right = api_pod("b", 0, "n1", spec={"nodeSelector": {"pool": "a"}})
    assert status_in(virtual.take(wrong, 0.0))["reason"] == "NodeAffinity"
    assert status_in(virtual.take(right, 0.0))["phase"] == "Running"
    huge = api_pod("c", 0, "n1", cpu="1500m", memory="100Ti", spec={})
    assert status_in(virtual.take(huge, 0.0))["reason"] == "OutOfmemory"


def test_a_pod_is_decided_on_once() -> None:
    virtual, pod = lab(), api_pod("a", 9, "n1")
    status = status_in(virtual.take(pod, 0.0))
    assert virtual.take(pod, 1.0) == []  # an event that was under way when the status was written
    assert virtual.take(seen(pod, status), 2.0) == []
    assert virtual.refused == 1


def test_ended_pods_of_others_are_left_alone() -> None:
    virtual = lab()
    assert virtual.take(api_pod("a", 1, "n1", phase="Failed"), 0.0) == []
    assert not virtual.node.state.active


# --- time -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("policy", "code", "phase", "restarts"), [
    ("Never",     "0", "Succeeded", 0),
    ("Never",     "3", "Failed",    0),
    ("OnFailure", "0", "Succeeded", 0),
    ("OnFailure", "3", "Running",   1),
    ("Always",    "0", "Running",   1),
])  # fmt: skip
def test_what_the_restart_policy_says(policy: str, code: str, phase: str, restarts: int) -> None:
    virtual = lab(factor=10)
    pod = annotated(api_pod("a", 2, "n1", restart=policy), run_seconds="60", exit_code=code)
    effects = virtual.take(pod, 100.0)
    assert alarms(effects) == [106.0]
    assert virtual.due("a", 105.9) == []
    effects = virtual.due("a", 106.0)
    status = status_in(effects)
    assert status["phase"] == phase
    assert [row["restartCount"] for row in status["containerStatuses"]] == [restarts]
    assert ("a" in virtual.node.state.active) == (phase == "Running")
    assert (StateChanged() in effects) == (phase != "Running")


def test_back_off_doubles() -> None:
    virtual = lab()
    effects = virtual.take(annotated(api_pod("a", 1, "n1", restart="Always"), run_seconds="1"), 0.0)
    waits = []
    for _ in range(8):
        (at,) = alarms(effects)
        effects = virtual.due("a", at)
        if status_in(effects)["containerStatuses"][0]["state"].get("waiting"):
            assert (
                status_in(effects)["containerStatuses"][0]["state"]["waiting"]["reason"] == "CrashLoopBackOff"
            )
            waits.append(alarms(effects)[0] - at)
    assert waits == [10.0, 20.0, 40.0, 80.0]


def test_what_ended_is_free_for_the_next() -> None:
    virtual = lab()
    first = annotated(api_pod("a", 4, "n1"), run_seconds="5")
    second = annotated(api_pod("b", 4, "n1"), run_seconds="5")
    virtual.take(first, 0.0)
    virtual.take(second, 0.0)
    assert status_in(virtual.take(api_pod("c", 4, "n1"), 1.0))["phase"] == "Failed"
    virtual.due("a", 5.0)
    assert virtual.node.state.departed >= {"a"}  # collected at the next look
    assert status_in(virtual.take(api_pod("d", 4, "n1"), 6.0))["phase"] == "Running"


def test_the_loop_of_the_cpu_manager_collects() -> None:
    """CPUs of a pod that is gone are free again without another pod, at most one period later."""
    virtual = lab(factor=10)
    virtual.take(api_pod("a", 1, "n1", cpu="2"), 0.0)
    virtual.take(api_pod("b", 1, "n1", cpu="2"), 0.0)
    (alarm,) = [effect for effect in virtual.gone("a", 50.0) if isinstance(effect, PodAlarm)]
    assert 50.0 < alarm.at <= 51.0
    assert "a" in virtual.node.state.cpu.assignments
    assert virtual.due(alarm.uid, alarm.at - 0.001) == []
    assert virtual.due(alarm.uid, alarm.at) == [StateChanged()]
    assert set(virtual.node.state.cpu.assignments) == {"b"}
    assert virtual.due(alarm.uid, alarm.at + 100) == []


def test_init_containers_take_their_time() -> None:
    virtual = lab()
    init = {
        "initContainers": [
            {"name": "i", "image": "x", "resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}
        ]
    }
    effects = virtual.take(annotated(api_pod("a", 1, "n1", spec=init), init_seconds="7"), 0.0)
    status = status_in(effects)
    assert (status["phase"], alarms(effects)) == ("Pending", [7.0])
    assert "running" in status["initContainerStatuses"][0]["state"]
    assert virtual.pods["a"].face.containers[0].role is Role.INIT
    status = status_in(virtual.due("a", 7.0))
    assert status["phase"] == "Running"
    assert status["initContainerStatuses"][0]["state"]["terminated"]["reason"] == "Completed"


def test_annotations_that_are_no_numbers_say_nothing() -> None:
    for text in ("soon", "-1", "nan", "inf", "1e99", ""):
        assert alarms(lab().take(annotated(api_pod("a", 1, "n1"), run_seconds=text), 0.0)) == []


# --- deletion -------------------------------------------------------------------------------------


def test_a_deleted_pod_is_ended_and_then_removed() -> None:
    virtual = lab()
    pod = annotated(api_pod("a", 4, "n1"), stop_seconds="20")
    running = status_in(virtual.take(pod, 0.0))
    leaving = seen(pod, running, deletionTimestamp="2026-01-01T00:00:30Z", deletionGracePeriodSeconds=8)
    effects = virtual.take(leaving, 1.0)
    assert alarms(effects) == [9.0]  # no longer than its grace period
    assert "a" in virtual.node.state.active
    effects = virtual.due("a", 9.0)
    assert status_in(effects)["phase"] == "Failed"
    assert [type(effect) for effect in effects] == [StatusWrite, StateChanged, PodAlarm, PodRemoval]
    assert "a" not in virtual.node.state.active
    assert virtual.take(seen(leaving, status_in(effects)), 10.0) == []  # it is on its way
    assert virtual.gone("a", 11.0) == []


def test_a_pod_that_was_deleted_before_it_came_never_runs() -> None:
    virtual = lab()
    pod = seen(api_pod("a", 4, "n1"), {"phase": "Pending"}, deletionTimestamp="2026-01-01T00:00:30Z")
    (effect,) = virtual.take(pod, 0.0)
    assert isinstance(effect, PodRemoval)
    assert not virtual.node.state.active


def test_a_pod_that_is_gone_at_once_is_let_go() -> None:
    virtual = lab()
    virtual.take(api_pod("a", 4, "n1"), 0.0)
    assert virtual.gone("a", 1.0)[0] == StateChanged()
    assert "a" not in virtual.node.state.active
    assert virtual.due("a", 99.0) == []


def test_a_pod_that_somebody_else_ended_is_let_go() -> None:
    virtual, pod = lab(), api_pod("a", 4, "n1")
    virtual.take(pod, 0.0)
    assert virtual.take(seen(pod, {"phase": "Failed"}), 1.0)[0] == StateChanged()
    assert "a" not in virtual.node.state.active
    (effect,) = virtual.take(seen(pod, {"phase": "Failed"}, deletionTimestamp="2026-01-01T00:00:30Z"), 2.0)
    assert isinstance(effect, PodRemoval)


# --- restarts -------------------------------------------------------------------------------------


def test_a_restarted_kubelet_decides_anew_as_the_engine_does() -> None:
    virtual, node = lab(), kubelet()
    pods = [api_pod(f"p{number}", gpus, "n1") for number, gpus in enumerate((2, 1, 4))]
    for pod in pods:
        virtual.take(pod, 0.0)
    simulate(node, [node.requested(pod_from(pod)) for pod in pods])
    again = restart(node, node.config)
    assert isinstance(again, tuple)
    effects = virtual.restart(5.0)
    assert StateChanged() in effects
    assert virtual.node.state == again[0].state
    rejected = [outcome.pod.uid for outcome in again[1] if not outcome.admitted]
    assert [e.pod.uid for e in effects if isinstance(e, StatusWrite)] == rejected


def test_a_lab_that_starts_again_refuses_nobody() -> None:
    virtual = lab()
    pods = [api_pod("a", 3, "n1"), api_pod("b", 4, "n1")]
    shown = [seen(pod, status_in(virtual.take(pod, 50.0))) for pod in pods]
    unseen = api_pod("new", 1, "n1")
    again = lab()
    effects = again.recover([unseen, *reversed(shown)], 60.0)
    assert [effect.pod.uid for effect in effects if isinstance(effect, StatusWrite)] == ["new"]
    assert set(again.node.state.active) == {"a", "b", "new"}
    assert status_in(again.take(api_pod("more", 1, "n1"), 61.0))["phase"] == "Failed"


def test_a_pod_that_ran_before_runs_on_though_it_would_be_refused() -> None:
    again = lab()
    pods = [api_pod(name, 4, "n1", phase="Running", startTime="2026-11-16T10:00:00Z") for name in "abc"]
    assert not any(isinstance(effect, StatusWrite) for effect in again.recover(pods, 0.0))
    assert set(again.node.state.active) == {"a", "b", "c"}


def test_run_time_counts_from_when_it_started() -> None:
    again = lab()
    status = {
        "phase": "Running",
        "startTime": "2026-11-16T10:00:00Z",
        "containerStatuses": [{"name": "c", "state": {"running": {"startedAt": "2026-11-16T10:00:05Z"}}}],
    }
    pod = annotated(seen(api_pod("a", 1, "n1"), status), run_seconds="60")
    assert alarms(again.recover([pod], 0.0)) == [1794823265.0]
