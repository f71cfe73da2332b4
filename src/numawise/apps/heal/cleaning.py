"""Which refused pods are removed: by rule alone, and never another pod.

Rules kept here:

1. A pod is removed when its owner's kind is listed, its namespace and labels are chosen, it is old enough,
   and newer ones of its owner and revision are kept.  Pods without an owner only where ``Pod`` is listed.
2. A pod that is leaving already, or that a Job still has to count, is left alone.
3. Age is what our own clock saw where the pod came while we looked, and the server's stamp otherwise; a
   stamp from the future makes a pod new, never old.
4. Within a minute no more than ``per_minute`` are removed (``Allowance``), on a clock that cannot jump.
"""

from collections import deque
from collections.abc import Iterable, Sequence

from numawise.apps.heal.refused import BARE, JOB_TRACKING, REPLICA_SET, RefusedPod
from numawise.apps.heal.taking_turns import by_namespace, in_turns
from numawise.values import dataclass, field

KEPT, OLD, PER_MINUTE, MINUTE = 1, 300.0, 60, 60.0
OWNER_KINDS = (REPLICA_SET, "ReplicationController", "StatefulSet", "DaemonSet", "Job", BARE)


@dataclass(frozen=True, slots=True)
class PodSelection:
    """Which namespaces and labels are looked after; empty: all."""

    namespaces: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()

    def has(self, namespace: str) -> bool:
        """Whether a namespace is looked after."""
        return not self.namespaces or namespace in self.namespaces

    def chooses(self, pod: RefusedPod) -> bool:
        """Whether a pod is looked after."""
        return self.has(pod.namespace) and all(pod.labels.get(key) == value for key, value in self.labels)


@dataclass(frozen=True, slots=True)
class CleaningRules:
    """What may be removed."""

    keep: int = KEPT
    """So many of each owner and revision stay, the newest."""
    older_than: float = OLD
    """Seconds."""
    owners: tuple[str, ...] = (REPLICA_SET,)
    selection: PodSelection = PodSelection()
    per_minute: int = PER_MINUTE


@dataclass(frozen=True, slots=True)
class AgedPod:
    """A refused pod, and how long it has been there."""

    pod: RefusedPod
    age: float


@dataclass(frozen=True, slots=True)
class PodToRemove:
    """A pod that the rules let go, and why."""

    pod: RefusedPod
    why: str


def removable(pods: Iterable[AgedPod], rules: CleaningRules) -> list[PodToRemove]:
    """The pods that the rules let go, the oldest first; namespaces take turns."""
    groups: dict[str, list[AgedPod]] = {}
    for aged in pods:
        owner = aged.pod.owner
        key = owner.of.key if owner is not None else aged.pod.uid
        groups.setdefault(key, []).append(aged)
    chosen: list[tuple[float, PodToRemove]] = []
    for group in groups.values():
        group.sort(key=lambda aged: (aged.age, aged.pod.name))
        for newer, aged in enumerate(group):
            if newer >= rules.keep and _allowed(aged, rules):
                chosen.append((-aged.age, PodToRemove(aged.pod, _why(aged, newer, rules))))
    chosen.sort(key=lambda pair: (pair[0], pair[1].pod.title))
    return list(in_turns(by_namespace((wish for _, wish in chosen), lambda wish: wish.pod.namespace)))


def _allowed(aged: AgedPod, rules: CleaningRules) -> bool:
    pod = aged.pod
    return (
        pod.owner_kind in rules.owners
        and rules.selection.chooses(pod)
        and aged.age >= rules.older_than
        and not pod.leaving
        and JOB_TRACKING not in pod.finalizers
    )


def _why(aged: AgedPod, newer: int, rules: CleaningRules) -> str:
    return (
        f"refused with {aged.pod.reason} {aged.age:.0f} s ago (--older-than {rules.older_than:.0f}s); "
        f"{newer} newer of its owner (--keep {rules.keep}); {aged.pod.owner_kind} is in --owners"
    )


@dataclass(slots=True)
class Allowance:
    """How many removals the last minute had (rule 4)."""

    per_minute: int
    times: deque[float] = field(default_factory=deque)

    def take(self, wishes: Sequence[PodToRemove], now: float) -> Sequence[PodToRemove]:
        """As many of the wishes as may be done now; they count as done."""
        while self.times and now - self.times[0] >= MINUTE:
            self.times.popleft()
        allowed = wishes[: max(0, self.per_minute - len(self.times))]
        self.times.extend(now for _ in allowed)
        return allowed
