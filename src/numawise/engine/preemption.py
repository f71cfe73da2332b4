"""Which pods a kubelet ends to make room for a critical one.

Counterpart: pkg/kubelet/preemption/preemption.go and ``Preemptable`` of pkg/kubelet/types/pod_update.go.

Rules kept here:

1. A critical pod may end every pod that is not critical, and critical ones of a lower priority.
2. Guaranteed pods are ended only as far as all others would not be enough, then Burstable ones as far as all
   BestEffort ones would not be.
3. Within a class the pod is taken that leaves least of the requirements, measured as the sum of squared
   shares; of equals, the one with less memory, then with fewer CPUs.  What is left after that comes out of a
   Go map; here it is the lowest uid.
4. A pod counts by what it requests, not by what it holds.  Of a pod that only state files mention, what it
   holds is what it requested, and it is Guaranteed.
5. The managers have allocated before: what the ended pods had is collected later, and the critical pod does
   not get it.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from numawise.engine.predicates import PODS, Insufficient, Others, held, size_of
from numawise.engine.state import NodeState
from numawise.request.model import (
    BEST_EFFORT,
    BURSTABLE,
    CPU,
    GUARANTEED,
    MEMORY,
    ContainerRequest,
    PodRequest,
    Role,
    most_at_once,
)
from numawise.rules.model import Rules
from numawise.values import dataclass

NOTHING_FOUND = (
    "Unexpected error while attempting to recover from admission failure: preemption: error finding a set of "
    "pods to preempt: no set of running pods found to reclaim resources: "
)
Requirements = Mapping[str, int]
"""Resource → how much has to be freed, in the order of the shortages."""


@dataclass(frozen=True, slots=True)
class Victims:
    """Pods that are ended, in this order."""

    uids: tuple[str, ...]
    open_to: tuple[str, ...] = ()
    """Pods of which chance could have taken another."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    uid: str
    qos: str
    requests: Requirements


def victims(
    rules: Rules, state: NodeState, pod: PodRequest, others: Others, shortages: Sequence[Insufficient]
) -> Victims | str:
    """The pods to end for a critical pod, or why there are none, in the kubelet's words."""
    needs = {one.resource: one.requested - (one.capacity - one.used) for one in shortages}
    names = dict.fromkeys((*needs, MEMORY, CPU))
    classes: dict[str, list[_Candidate]] = {BEST_EFFORT: [], BURSTABLE: [], GUARANTEED: []}
    for uid, other in others:
        if other is None:
            requests = held(state, uid)
            classes[GUARANTEED].append(_Candidate(uid, GUARANTEED, requests))
        elif preemptable(pod, other):
            requests = {name: requested(rules, other, name) for name in names}
            classes[other.qos].append(_Candidate(uid, other.qos, requests))
    best_effort, burstable, guaranteed = classes.values()
    missing = _less(needs, [*best_effort, *burstable, *guaranteed])
    if missing:
        return f"{NOTHING_FOUND}{_shown(missing)}"
    chance: list[str] = []
    third = _nearest(guaranteed, _less(needs, [*best_effort, *burstable]), chance)
    second = _nearest(burstable, _less(needs, [*best_effort, *third]), chance)
    first = _nearest(best_effort, _less(needs, [*second, *third]), chance)
    return Victims(tuple(one.uid for one in (*first, *second, *third)), tuple(chance))


def preemptable(pod: PodRequest, other: PodRequest) -> bool:
    """True when the one may end the other (rule 1)."""
    mine, theirs = pod.constraints, other.constraints
    if mine.critical and not theirs.critical:
        return True
    if mine.priority is None or theirs.priority is None:
        return False
    return mine.priority > theirs.priority


def requested(rules: Rules, pod: PodRequest, name: str) -> int:
    """What a pod counts for (rule 4)."""
    if name == PODS:
        return 1
    size = partial(_of, name)
    if rules.behaviour.victims_counted_at_once:
        amount = 0 if pod.pod_level else most_at_once(pod.containers, size)
        if pod.requests and name in pod.requests:
            amount = size_of(name, pod.requests[name])
    else:
        amount = sum(size(one) for one in pod.containers if one.role is Role.APP)
        amount = max(amount, *(size(one) for one in pod.containers))
    return amount + size_of(name, pod.overhead.get(name)) if amount else 0


def _of(name: str, container: ContainerRequest) -> int:
    return size_of(name, container.requests.get(name))


def _less(needs: Requirements, pods: Sequence[_Candidate]) -> dict[str, int]:
    """What is still to be freed without these pods."""
    left = {name: size - sum(pod.requests.get(name, 0) for pod in pods) for name, size in needs.items()}
    return {name: size for name, size in left.items() if size > 0}


def _nearest(pods: Sequence[_Candidate], needs: Requirements, chance: list[str]) -> list[_Candidate]:
    """As few of the pods as possible that free what is needed (rule 3)."""
    found: list[_Candidate] = []
    left = list(pods)
    while needs:
        keys = {pod.uid: _key(pod, needs) for pod in left}
        best = min(keys.values())
        alike = sorted((pod for pod in left if keys[pod.uid] == best), key=lambda pod: pod.uid)
        if len(alike) > 1:
            chance += [pod.uid for pod in alike if pod.uid not in chance]
        found.append(alike[0])
        left.remove(alike[0])
        needs = _less(needs, alike[:1])
    return found


def _key(pod: _Candidate, needs: Requirements) -> tuple[float, int, int]:
    distance = 0.0
    for name, size in needs.items():
        rest = size - pod.requests.get(name, 0)
        if rest > 0:
            distance += (rest / size) ** 2
    return distance, pod.requests.get(MEMORY, 0), pod.requests.get(CPU, 0)


def _shown(needs: Requirements) -> str:
    return f"[{''.join(f'(res: {name}, q: {size}), ' for name, size in needs.items())}]"
