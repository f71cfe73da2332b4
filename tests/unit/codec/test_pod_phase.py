"""What a pod's status says of its life: whether it holds something, has ended, was refused."""

from typing import Any

import pytest

from numawise.codec.pod_phase import has_ended, refusal_of

RUNS, WAITS, STOPPED = ({name: {}} for name in ("running", "waiting", "terminated"))
STATES = {"r": RUNS, "w": WAITS, "t": STOPPED}


def pod(
    phase: str, states: str = "", *, deleted: bool = False, reason: str = "", inits: str = ""
) -> dict[str, Any]:
    """A pod whose containers are in these states, one letter each."""
    return {
        "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {},
        "status": {
            "phase": phase,
            "reason": reason,
            "message": "it said",
            "containerStatuses": [{"state": STATES[one]} for one in states],
            "initContainerStatuses": [{"state": STATES[one]} for one in inits],
        },
    }


@pytest.mark.parametrize(("value", "ended"), [
    pytest.param(pod("Running", "r"),                          False, id="runs"),
    pytest.param(pod("Running", "w"),                          False, id="between two starts"),
    pytest.param(pod("Running", "rt"),                         False, id="one container has stopped"),
    pytest.param(pod("Running", "t"),                          False, id="all have stopped, and may start again"),
    pytest.param(pod("Pending"),                               False, id="no container yet"),
    pytest.param(pod("Pending", "w", inits="t"),               False, id="its init containers are done"),
    pytest.param(pod("Succeeded", "t"),                        True,  id="succeeded"),
    pytest.param(pod("Failed", "t"),                           True,  id="failed"),
    pytest.param(pod("Failed"),                                True,  id="refused, so that no container is listed"),
    pytest.param(pod("Failed", "r"),                           False, id="given up by the cluster, and still there"),
    pytest.param(pod("Failed", "t", inits="r"),                False, id="its sidecar still runs"),
    pytest.param(pod("Running", "r", deleted=True),            False, id="deleted, and still stopping"),
    pytest.param(pod("Running", "tr", deleted=True),           False, id="deleted, one container still stopping"),
    pytest.param(pod("Running", "tt", deleted=True),           True,  id="deleted, and stopped"),
    pytest.param(pod("Pending", deleted=True),                 False, id="deleted before its kubelet said anything"),
    pytest.param({"status": 5},                                False, id="no status"),
    pytest.param({"status": {"phase": ["Failed"]}},            False, id="a phase that is none"),
    pytest.param({"status": {"phase": "Failed", "containerStatuses": {"a": 1}}}, True, id="statuses that are none"),
])  # fmt: skip
def test_has_ended(value: dict[str, Any], *, ended: bool) -> None:
    assert has_ended(value) == ended


@pytest.mark.parametrize(("value", "refusal"), [
    (pod("Failed", reason="TopologyAffinityError"),        ("TopologyAffinityError", "it said")),
    (pod("Failed", reason="UnexpectedAdmissionError"),     ("UnexpectedAdmissionError", "it said")),
    (pod("Failed", reason="OutOfcpu"),                     ("OutOfcpu", "it said")),
    (pod("Failed", reason="Evicted"),                      None),
    (pod("Failed"),                                        None),
    (pod("Running", "r", reason="TopologyAffinityError"),  None),
    (pod("Failed", "r", reason="TopologyAffinityError"),   None),
])  # fmt: skip
def test_refusal_of(value: dict[str, Any], refusal: tuple[str, str] | None) -> None:
    assert refusal_of(value) == refusal
