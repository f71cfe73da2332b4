"""The status of a pod as a kubelet writes it, from admission to end.

Rules kept here:

1. A refused pod is ``Failed`` with the kubelet's reason and message, and nothing else.
2. Every status names all conditions and containers anew; a time stamp is that of the event it is about.
3. A pod has no address: nothing runs, and nobody can reach it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from numawise.codec.objects import ENDED, FAILED, PENDING, RUNNING, SUCCEEDED
from numawise.codec.stamps import second_stamp
from numawise.request.model import Role
from numawise.values import dataclass

Status = dict[str, Any]
PREEMPTED, PREEMPTED_MESSAGE = "Preempting", "Preempted in order to admit critical pod"
CRASH_LOOP, CREATING, INITIALIZING = "CrashLoopBackOff", "ContainerCreating", "PodInitializing"
CREATE_FAILED = "CreateContainerConfigError"
KILLED = 143
"""What a program exits with that SIGTERM ends."""


@dataclass(frozen=True, slots=True)
class ContainerFace:
    """What a status says of a container in any case."""

    name: str
    image: str
    role: Role


@dataclass(frozen=True, slots=True)
class PodFace:
    """What a status says of a pod in any case."""

    uid: str
    qos: str
    containers: tuple[ContainerFace, ...]
    scheduled: str
    """When it was bound, as its condition says."""


def refused(face: PodFace, reason: str, message: str, now: float) -> Status:
    """A pod that its kubelet did not admit (rule 1); ``message``: as its release begins it."""
    return {
        "phase": FAILED,
        "reason": reason,
        "message": message,
        "startTime": second_stamp(now),
        "qosClass": face.qos,
    }


def initializing(face: PodFace, since: float, now: float) -> Status:
    """Admitted, with init containers that run."""
    states = [
        _running(one, now) if one.role is not Role.APP else _waiting(one, INITIALIZING)
        for one in face.containers
    ]
    return _status(face, PENDING, since, now, states, initialized=False)


def running(face: PodFace, since: float, now: float, restarts: int = 0, exit_code: int = 0) -> Status:
    """All containers run, for the first time or again."""
    before = {"terminated": _terminated(exit_code, since, now)} if restarts else {}
    states = [
        _done(one, since, now)
        if one.role is Role.INIT
        else _running(one, now, restarts if one.role is Role.APP else 0, before)
        for one in face.containers
    ]
    return _status(face, RUNNING, since, now, states, ready=True)


def not_created(face: PodFace, since: float, now: float, errors: Mapping[str, str]) -> Status:
    """Admitted, but containers could not be created."""
    states = [
        _waiting(one, CREATE_FAILED, errors[one.name])
        if one.name in errors
        else _waiting(one, CREATING)
        if one.role is Role.APP
        else _done(one, since, now)
        for one in face.containers
    ]
    return _status(face, PENDING, since, now, states)


def backing_off(face: PodFace, since: float, now: float, restarts: int, exit_code: int) -> Status:
    """Containers that ended wait for their restart."""
    last = {"terminated": _terminated(exit_code, since, now)}
    states = [
        _done(one, since, now)
        if one.role is Role.INIT
        else {**_waiting(one, CRASH_LOOP), "restartCount": restarts, "lastState": last}
        for one in face.containers
    ]
    return _status(face, RUNNING, since, now, states)


def ended(face: PodFace, since: float, now: float, restarts: int, exit_code: int) -> Status:
    """All containers have ended, and stay so."""
    states = [
        _state(
            one,
            {"terminated": _terminated(0 if one.role is Role.INIT else exit_code, since, now)},
            restarts=restarts if one.role is Role.APP else 0,
        )
        for one in face.containers
    ]
    phase = FAILED if exit_code else SUCCEEDED
    return _status(face, phase, since, now, states, reason="" if exit_code else "PodCompleted")


def preempted(face: PodFace, since: float, now: float, restarts: int) -> Status:
    """Ended by the kubelet to make room for a critical pod."""
    status = ended(face, since, now, restarts, KILLED)
    return {**status, "reason": PREEMPTED, "message": PREEMPTED_MESSAGE}


# --- parts ------------------------------------------------------------------------------------


def _status(
    face: PodFace,
    phase: str,
    since: float,
    now: float,
    states: Sequence[dict[str, Any]],
    *,
    initialized: bool = True,
    ready: bool = False,
    reason: str = "ContainersNotReady",
) -> Status:
    """Rule 2."""
    why = {} if ready or not reason else {"reason": reason}
    waits = {} if initialized else {"reason": "ContainersNotInitialized"}
    lasting = phase not in ENDED
    inits = [state for one, state in zip(face.containers, states, strict=True) if one.role is not Role.APP]
    apps = [state for one, state in zip(face.containers, states, strict=True) if one.role is Role.APP]
    return {
        "phase": phase,
        "conditions": [
            _condition("PodReadyToStartContainers", lasting, now if not lasting else since),
            _condition("Initialized", initialized, since, waits),
            _condition("Ready", ready, now, why),
            _condition("ContainersReady", ready, now, why),
            {
                "type": "PodScheduled",
                "status": "True",
                "lastTransitionTime": face.scheduled or second_stamp(since),
            },
        ],
        "startTime": second_stamp(since),
        **({"initContainerStatuses": inits} if inits else {}),
        "containerStatuses": apps,
        "qosClass": face.qos,
    }


def _condition(kind: str, true: bool, at: float, more: Mapping[str, str] | None = None) -> dict[str, Any]:  # noqa: FBT001 - the condition's own value
    return {
        "type": kind,
        "status": "True" if true else "False",
        "lastTransitionTime": second_stamp(at),
        "reason": None,
        **(more or {}),
    }


def _state(
    one: ContainerFace,
    state: Mapping[str, Any],
    *,
    ready: bool = False,
    restarts: int = 0,
    before: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    return {
        "name": one.name,
        "image": one.image,
        "imageID": "",
        "state": state,
        "lastState": before or {},
        "ready": ready,
        "started": ready,
        "restartCount": restarts,
    }


def _running(
    one: ContainerFace, now: float, restarts: int = 0, before: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    state = {"running": {"startedAt": second_stamp(now)}}
    return _state(one, state, ready=True, restarts=restarts, before=before)


def _done(one: ContainerFace, since: float, now: float) -> dict[str, Any]:
    """An init container that has done its work."""
    return _state(one, {"terminated": _terminated(0, since, now)}, ready=True)


def _waiting(one: ContainerFace, reason: str, message: str = "") -> dict[str, Any]:
    words = {"reason": reason, **({"message": message} if message else {})}
    return _state(one, {"waiting": words})


def _terminated(exit_code: int, since: float, now: float) -> dict[str, Any]:
    return {
        "exitCode": exit_code,
        "reason": "Error" if exit_code else "Completed",
        "startedAt": second_stamp(since),
        "finishedAt": second_stamp(now),
    }
