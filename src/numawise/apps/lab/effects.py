"""What a virtual kubelet wants done, as values; whoever runs it carries them out.

A pod is meant with its uid, which tells it from an earlier or later one of that name.
"""

from typing import Any

from numawise.kube.events import ObjectReference
from numawise.values import dataclass


@dataclass(frozen=True, slots=True)
class StatusWrite:
    """The status of a pod is this now."""

    pod: ObjectReference
    status: dict[str, Any]


@dataclass(frozen=True, slots=True)
class PodRemoval:
    """A pod that was asked to go has gone."""

    pod: ObjectReference


@dataclass(frozen=True, slots=True)
class PodAlarm:
    """A pod is to be looked at again at a time."""

    at: float
    uid: str


@dataclass(frozen=True, slots=True)
class RefusalEvent:
    """What a kubelet tells in an Event when it refuses a pod."""

    pod: ObjectReference
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class StateChanged:
    """What the node publishes is another one now."""


LabEffect = StatusWrite | PodRemoval | PodAlarm | RefusalEvent | StateChanged
