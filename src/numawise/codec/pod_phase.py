"""What the status of a pod says of its life: it holds something, it has ended, its kubelet refused it.

Rules kept here:

1. A pod holds what it was given as long as one of its containers is said to run, whatever its phase.
2. Else it has ended when its phase says so, or when somebody deleted it and all its containers have stopped.
3. A refused pod is one that failed for a reason that the kubelet gives at admission.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from numawise.codec.document import mapping
from numawise.codec.objects import ENDED, FAILED

CONTAINER_STATUSES = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
REFUSALS = ("Admission", "AppArmor", "SysctlForbidden", "PodFeatureUnsupported")
"""Reasons of the kubelet for a refusal that have nothing to do with resources, beside those of its log."""


def container_statuses(status: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """What a pod's status says of each of its containers."""
    for name in CONTAINER_STATUSES:
        rows = status.get(name)
        yield from map(mapping, rows if isinstance(rows, list) else ())


def containers_run(status: Mapping[str, Any]) -> bool:
    """Whether a container is said to run."""
    return any("running" in mapping(row.get("state")) for row in container_statuses(status))


def has_ended(pod: object) -> bool:
    """Whether a pod holds nothing any more (rules 1 and 2)."""
    status = mapping(mapping(pod).get("status"))
    if status.get("phase") in ENDED:
        return not containers_run(status)
    if not mapping(mapping(pod).get("metadata")).get("deletionTimestamp"):
        return False
    states = [mapping(row.get("state")) for row in container_statuses(status)]
    return bool(states) and all("terminated" in state for state in states)


def refusal_of(pod: object) -> tuple[str, str] | None:
    """With which reason and message its kubelet refused a pod; None: it did not (rule 3)."""
    status = mapping(mapping(pod).get("status"))
    reason = str(status.get("reason") or "")
    if status.get("phase") != FAILED or not is_refusal(reason) or containers_run(status):
        return None
    return reason, str(status.get("message") or "")


def is_refusal(reason: str) -> bool:
    """Whether the kubelet gives this reason when it does not let a pod in."""
    from numawise.codec.kubeletlog.hints import reason_of  # noqa: PLC0415 - few pods have failed

    return reason in REFUSALS or bool(reason_of(reason))
