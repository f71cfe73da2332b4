"""Which pods may be restarted so that another one is let in.

Rules kept here:

1. A controller makes the pod anew: it has a controller among its owners, and that is no DaemonSet, whose pods
   go nowhere else, and no Node (a mirror of a static pod).
2. Its priority is not above that of the pod that waits.  An equal one may be restarted, because it is not
   ended for good: it is let in elsewhere, or nothing is done.
3. Nobody said that it must stay: the annotation ``safe-to-evict`` of the cluster autoscaler.
4. Of the pods of a PodDisruptionBudget no more than it allows now; a budget that cannot be read allows none.
5. It runs: it has a node, has not ended, and is not being deleted.
6. Anything that is not of the expected shape counts against a restart.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from numawise.codec.cluster_pod import SAFE_TO_EVICT
from numawise.codec.document import mapping
from numawise.codec.objects import MIRROR
from numawise.codec.pod_phase import has_ended
from numawise.codec.selector import Matches, object_selector
from numawise.request.constraints import NO_CONSTRAINTS, SYSTEM_CRITICAL
from numawise.request.defaults import RawPod
from numawise.values import dataclass, replace

Object = Mapping[str, Any]
NO_OWNER, DAEMON, STATIC = "no controller makes it anew", "of a DaemonSet", "static"
HIGHER, CRITICAL, STAYS = "of a higher priority", "critical for the system", "marked as not safe to evict"
BUDGET, ENDING, UNREADABLE = "its disruption budget allows none", "ends already", "cannot be read"


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """A PodDisruptionBudget, as far as a restart looks at it."""

    namespace: str
    name: str
    allowed: int
    """How many of its pods may be disrupted now."""
    selects: Matches
    """Whether it counts a pod with these labels."""

    @property
    def key(self) -> str:
        """Its full name."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Restartable:
    """A pod that may be restarted."""

    raw: RawPod
    """As its controller would make it anew."""
    uid: str
    """Of the one that runs."""
    node: str
    priority: int
    owner: str
    budgets: tuple[str, ...] = ()
    """Names of the disruption budgets that count it."""


def restartable(
    pod: Object,
    raw: RawPod,
    waiting: int,
    budgets: Iterable[DisruptionBudget] = (),
) -> Restartable | str:
    """A pod that may be restarted for one of priority ``waiting``, or why it may not."""
    metadata, spec = (mapping(pod.get(name)) for name in ("metadata", "spec"))
    annotations = mapping(metadata.get("annotations"))
    node = spec.get("nodeName")
    if not isinstance(node, str) or not node:
        return UNREADABLE
    if metadata.get("deletionTimestamp") or has_ended(pod):
        return ENDING
    owner = controller_words(metadata)
    if MIRROR in annotations or owner.startswith("Node "):
        return STATIC
    if not owner:
        return NO_OWNER
    if owner.startswith("DaemonSet "):
        return DAEMON
    if str(annotations.get(SAFE_TO_EVICT, "true")).lower() == "false":
        return STAYS
    priority = priority_of(raw)
    if priority >= SYSTEM_CRITICAL:
        return CRITICAL
    if priority > waiting:
        return HIGHER
    labels, namespace = mapping(metadata.get("labels")), str(metadata.get("namespace") or "default")
    counted = [one for one in budgets if one.namespace == namespace and one.selects(labels)]
    if any(one.allowed < 1 for one in counted):
        return BUDGET
    again = replace(
        raw,
        uid=f"again {raw.uid}",
        constraints=replace(raw.constraints, node_name="")
        if raw.constraints is not NO_CONSTRAINTS
        else NO_CONSTRAINTS,
    )
    return Restartable(again, raw.uid, node, priority, owner, tuple(one.key for one in counted))


def priority_of(raw: RawPod) -> int:
    """The priority of a pod; 0 where none is written."""
    return raw.constraints.priority or 0


def controller_words(metadata: Mapping[str, Any]) -> str:
    """The controller of a pod as ``ReplicaSet web-5d4f``; '': it has none."""
    rows = metadata.get("ownerReferences")
    for one in map(mapping, rows if isinstance(rows, list) else ()):
        if one.get("controller") is True and one.get("kind") and one.get("name"):
            return f"{one['kind']} {one['name']}"
    return ""


def budget_of(value: Object) -> DisruptionBudget:
    """A PodDisruptionBudget out of what the API server sends (rules 4 and 6)."""
    metadata, spec, status = (mapping(value.get(name)) for name in ("metadata", "spec", "status"))
    allowed = status.get("disruptionsAllowed")
    known = isinstance(allowed, int) and not isinstance(allowed, bool)
    # what the controller has not looked at yet allows nothing
    current = status.get("observedGeneration") in (None, metadata.get("generation"))
    return DisruptionBudget(
        str(metadata.get("namespace") or "default"),
        str(metadata.get("name") or ""),
        int(allowed) if known and current else 0,  # type: ignore[arg-type]
        object_selector(spec.get("selector")),
    )
