"""Another size for a pod that runs: allocated, deferred or infeasible, and in which order resizes are tried.

Counterpart: pkg/kubelet/allocation/allocation_manager.go with handlers.go, ``HandlePodUpdates`` of
pkg/kubelet/kubelet.go, and the resize conditions of pkg/kubelet/status/status_manager.go; up to 1.33
``handlePodResourcesResize`` and ``canResizePod`` of kubelet.go.

Rules kept here:

1. The kubelet compares what the spec asks for with what it has allocated.  Where they differ, the resize is
   *infeasible* (it is not tried again until the spec changes), *deferred* (it waits), or allocated.
2. Swap, static pods and static managers make it infeasible first; then, up to 1.35, a request beyond the
   whole node; then the pod is admitted once more with its new size, and any refusal defers it.
3. All sums are of what other pods are allocated, not of what they ask for; and of what their containers
   still have, until their status says that these have the new size.
4. Resizes that ask for no more come first, then pods by priority, then Guaranteed ones, then those that wait
   longest.  A pod that waits already keeps its place when its spec changes again.
5. Managers see an ordinary admission: whoever has exclusive CPUs or memory keeps exactly these, and a number
   that does not match what is held satisfies no policy but best-effort (1.35 and 1.36; before, they look at
   what the pod has, and later they look away).
6. Of init containers, only sidecars have a size of their own unless a gate says so; likewise pods.
"""

from collections.abc import Callable, Mapping

from numawise.engine.admit import Admitted, Crashed, Decision, Rejected
from numawise.engine.predicates import asked, size_of
from numawise.engine.state import NodeState, ResizePending, Resizes
from numawise.request.model import (
    BURSTABLE,
    CPU,
    MEMORY,
    Amounts,
    ContainerRequest,
    PodRequest,
    Role,
    most_at_once,
)
from numawise.rules.model import Rules
from numawise.values import dataclass, replace

ALLOCATED, DEFERRED, INFEASIBLE, UNCHANGED = "allocated", "deferred", "infeasible", "unchanged"
DEFERRED_REASON, INFEASIBLE_REASON = "Deferred", "Infeasible"
STATIC_POD = "In-place resize of static-pods is not supported"
SWAP = "In-place resize of containers with swap is not supported."


@dataclass(frozen=True, slots=True)
class ResizeResult:
    """What became of one resize when it was tried."""

    uid: str
    outcome: str
    """``allocated``, ``deferred``, ``infeasible`` or ``unchanged``."""
    reason: str = ""
    """That of the pod's condition: ``Deferred`` or ``Infeasible``."""
    message: str = ""
    cause: str = ""
    """Of a deferred one: the reason of the admission that failed, such as ``OutOfcpu``."""
    pod: PodRequest | None = None
    """What it asks for."""
    before: PodRequest | None = None
    """The pod as it was allocated."""
    decision: Decision | None = None

    @property
    def shrank(self) -> bool:
        """True when the pod needs less CPU or memory than before."""
        if self.outcome != ALLOCATED or self.pod is None or self.before is None:
            return False
        now, before = asked(self.pod), asked(self.before)
        return any(now.get(name, 0) < before.get(name, 0) for name in (CPU, MEMORY))


Try = Callable[[NodeState, PodRequest], Decision]
"""Admit a pod with its new size; a refusal leaves it as it is."""


# --- what a pod has, and what it asks for -------------------------------------------------------


def allocated_part(rules: Rules, desired: PodRequest, allocated: PodRequest) -> PodRequest:
    """The desired pod as far as it is allocated (rule 6)."""
    own = {container.name: container for container in allocated.containers}
    containers = tuple(
        replace(container, requests=own[container.name].requests, limits=own[container.name].limits)
        if container.name in own and resizable(rules, container)
        else container
        for container in desired.containers
    )
    pod = replace(desired, containers=containers)
    if not rules.resize.pod_level:
        return pod
    return replace(pod, requests=allocated.requests, limits=allocated.limits)


def resizable(rules: Rules, container: ContainerRequest) -> bool:
    """True when a container has an allocation of its own."""
    return container.role is not Role.INIT or rules.resize.init_containers


def same_size(one: PodRequest, other: PodRequest) -> bool:
    """True when two versions of a pod ask for the same."""
    return _size(one) == _size(other)


def _same_containers(one: PodRequest, other: PodRequest) -> bool:
    return _size(one)[1:] == _size(other)[1:]


def noticed(rules: Rules, before: PodRequest, pod: PodRequest) -> bool:
    """True when the kubelet takes a new spec for a resize."""
    if not rules.behaviour.pod_sizes_noticed and _same_containers(before, pod):
        return False
    return not same_size(before, pod)


def _size(pod: PodRequest) -> list[tuple[dict[str, int], dict[str, int]]]:
    sizes = [(pod.requests or {}, pod.limits or {}), *((one.requests, one.limits) for one in pod.containers)]
    return [(_nano(requests), _nano(limits)) for requests, limits in sizes]


def _nano(amounts: Amounts) -> dict[str, int]:
    return {name: amount.nano for name, amount in amounts.items()}


# --- a new spec ---------------------------------------------------------------------------------


def asked_again(rules: Rules, state: NodeState, pod: PodRequest) -> tuple[NodeState, bool]:
    """The spec of a running pod has changed; True when the resize waits to be tried."""
    before, resizes = state.active[pod.uid], state.resizes
    if before is None or not rules.resize.enabled:
        return replace(state, active={**state.active, pod.uid: pod}), False
    seen = noticed(rules, _spec(state, pod.uid), pod)
    allocated = allocated_part(rules, pod, before)
    active = {**state.active, pod.uid: allocated}
    waiting = resizes.pending.get(pod.uid)
    if pod.uid in resizes.counted and waiting is not None and waiting.reason == INFEASIBLE_REASON:
        resizes = replace(resizes, counted={**resizes.counted, pod.uid: _as_it_runs(allocated)})
    if same_size(allocated, pod):  # a resize that waited was taken back, or changes nothing of these
        resizes = _without(resizes, pod.uid)
        return replace(state, active=active, resizes=_settled(resizes, pod.uid)), False
    resizes = replace(resizes, desired={**resizes.desired, pod.uid: pod})
    if not seen:
        return replace(state, active=active, resizes=resizes), False
    return queued(rules, replace(state, active=active, resizes=resizes), pod.uid), True


def forgotten(state: NodeState, uid: str) -> NodeState:
    """A pod is gone, and its resize with it."""
    resizes = state.resizes
    if uid not in resizes.desired and uid not in resizes.pending and uid not in resizes.queue:
        return state
    queue = tuple(other for other in resizes.queue if other != uid)
    counted = {other: amounts for other, amounts in resizes.counted.items() if other != uid}
    return replace(
        state, resizes=_settled(replace(_without(resizes, uid), queue=queue, counted=counted), uid)
    )


def returning(rules: Rules, state: NodeState) -> tuple[PodRequest, ...]:
    """After a restart: the live pods as they are admitted again, with what they were allocated."""
    pods = []
    for uid, pod in state.active.items():
        desired = state.resizes.desired.get(uid)
        if pod is None:
            continue
        if desired is None:
            pods.append(pod)
        else:
            pods.append(allocated_part(rules, desired, pod) if rules.resize.enabled else desired)
    return tuple(pods)


def found_again(rules: Rules, state: NodeState) -> NodeState:
    """After a restart: the resizes that had not been allocated are queued; the conditions begin again."""
    resizes = state.resizes
    waiting = {uid: pod for uid, pod in resizes.desired.items() if uid in state.active}
    pending = {uid: resizes.pending[uid] for uid in state.active if uid in resizes.pending}
    moment = resizes.moment
    for uid, condition in pending.items():
        moment += 1
        pending[uid] = replace(condition, since=moment)
    state = replace(state, resizes=Resizes(waiting, (), pending, moment))
    for uid in state.active:
        if uid in waiting:
            state = queued(rules, state, uid)
    return state


# --- the order ----------------------------------------------------------------------------------


def queued(rules: Rules, state: NodeState, uid: str) -> NodeState:
    """Put a pod into its place among those that wait (rule 4); one that is there already stays."""
    queue = [*state.resizes.queue]
    if uid in queue:
        return state
    queue.append(uid)
    if rules.behaviour.resizes_wait_in_a_queue:
        queue = [other for other in queue if other in state.active]
        for end in range(1, len(queue)):  # the order is not transitive: it hangs on how it is sorted
            place = end
            while place and _before(rules, state, queue[place], queue[place - 1]):
                queue[place - 1 : place + 1] = queue[place], queue[place - 1]
                place -= 1
    return replace(state, resizes=replace(state.resizes, queue=tuple(queue)))


def _before(rules: Rules, state: NodeState, first: str, second: str) -> bool:
    if not _grows(rules, state, first):
        return True
    if not _grows(rules, state, second):
        return False
    one, other = _spec(state, first), _spec(state, second)
    if _priority(one) != _priority(other):
        return _priority(one) > _priority(other)
    if one.guaranteed != other.guaranteed:
        return one.guaranteed
    since = state.resizes.pending.get(first)
    if since is None:
        return False
    later = state.resizes.pending.get(second)
    return later is None or since.since < later.since


def _spec(state: NodeState, uid: str) -> PodRequest:
    pod = state.resizes.desired.get(uid) or state.active[uid]
    assert pod is not None
    return pod


def _priority(pod: PodRequest) -> int:
    return pod.constraints.priority or 0


def _grows(rules: Rules, state: NodeState, uid: str) -> bool:
    """True when a resize asks for more CPU or memory than the pod has."""
    desired, allocated = state.resizes.desired.get(uid), state.active[uid]
    if desired is None or allocated is None:
        return False
    wanted, held = asked(desired), asked(allocated_part(rules, desired, allocated))
    return any(wanted.get(name, 0) > held.get(name, 0) for name in (CPU, MEMORY))


# --- trying -------------------------------------------------------------------------------------


def retried(
    rules: Rules, state: NodeState, capacity: Mapping[str, int], attempt: Try
) -> tuple[NodeState, tuple[ResizeResult, ...]]:
    """Try everything that waits, in order; ``capacity``: what the whole node has for pods."""
    if not state.ready or not rules.resize.enabled:
        return state, ()
    results: list[ResizeResult] = []
    waiting: list[str] = []
    for uid in state.resizes.queue:
        if uid not in state.active:
            continue
        state, result = _tried(rules, state, uid, capacity, attempt)
        results.append(result)
        if isinstance(result.decision, Crashed):
            break
        if result.outcome == DEFERRED:
            waiting.append(uid)
    return replace(state, resizes=replace(state.resizes, queue=tuple(waiting))), tuple(results)


def _tried(
    rules: Rules, state: NodeState, uid: str, capacity: Mapping[str, int], attempt: Try
) -> tuple[NodeState, ResizeResult]:
    pod, allocated = state.resizes.desired.get(uid), state.active[uid]
    if pod is None or allocated is None:
        return replace(state, resizes=_settled(state.resizes, uid)), ResizeResult(uid, UNCHANGED)
    message = infeasible(rules, pod, allocated_part(rules, pod, allocated), capacity)
    if message:
        resizes = _pending(state.resizes, uid, INFEASIBLE_REASON, message)
        result = ResizeResult(uid, INFEASIBLE, INFEASIBLE_REASON, message, "", pod, allocated)
        return replace(state, resizes=resizes), result
    decision = attempt(state, pod)
    if isinstance(decision, Crashed):
        return state, ResizeResult(uid, DEFERRED, "", decision.message, "", pod, allocated, decision)
    state = decision.state
    if isinstance(decision, Rejected):
        resizes = _pending(state.resizes, uid, DEFERRED_REASON, decision.message)
        result = ResizeResult(
            uid, DEFERRED, DEFERRED_REASON, decision.message, decision.reason, pod, allocated, decision
        )
        return replace(state, resizes=resizes), result
    assert isinstance(decision, Admitted)
    resizes = _settled(_without(state.resizes, uid), uid)
    counted = _on_the_way(rules, allocated, pod)  # until it is reported otherwise
    resizes = replace(resizes, counted={**resizes.counted, uid: counted})
    result = ResizeResult(uid, ALLOCATED, pod=pod, before=allocated, decision=decision)
    return replace(state, resizes=resizes), result


def reported(rules: Rules, state: NodeState) -> NodeState:
    """All containers have the sizes they are allocated, and the pods' status says so."""
    counted: dict[str, dict[str, int]] = {}
    if rules.behaviour.infeasible_pods_count_as_they_run and not rules.resize.pod_level:
        for uid, condition in state.resizes.pending.items():
            pod = state.active.get(uid)
            if pod is not None and condition.reason == INFEASIBLE_REASON:
                counted[uid] = _as_it_runs(pod)
    if counted == state.resizes.counted:
        return state
    return replace(state, resizes=replace(state.resizes, counted=counted))


def _as_it_runs(pod: PodRequest) -> dict[str, int]:
    """What a pod counts for without its init containers."""
    return asked(replace(pod, containers=tuple(one for one in pod.containers if one.role is not Role.INIT)))


def _on_the_way(rules: Rules, before: PodRequest, now: PodRequest) -> dict[str, int]:
    """What a pod counts for that is given another size (rule 3)."""
    if not rules.behaviour.sizes_compared_by_container:
        old, new = asked(replace(before, requests=now.requests, limits=now.limits)), asked(now)
        return {name: max(old.get(name, 0), new.get(name, 0)) for name in {**old, **new}}
    containers = tuple(
        one if one.role is Role.INIT else replace(one, requests=_larger(one.requests, other.requests))
        for one, other in zip(now.containers, before.containers, strict=True)
    )
    return asked(replace(now, containers=containers))


def _larger(one: Amounts, other: Amounts) -> Amounts:
    return {
        name: max((side[name] for side in (one, other) if name in side), key=lambda amount: amount.nano)
        for name in {**one, **other}
    }


def _without(resizes: Resizes, uid: str) -> Resizes:
    return replace(resizes, desired={other: pod for other, pod in resizes.desired.items() if other != uid})


def _settled(resizes: Resizes, uid: str) -> Resizes:
    pending = {other: one for other, one in resizes.pending.items() if other != uid}
    return replace(resizes, pending=pending)


def _pending(resizes: Resizes, uid: str, reason: str, message: str) -> Resizes:
    before, moment = resizes.pending.get(uid), resizes.moment + 1
    since = before.since if before is not None and before.reason == reason else moment
    return replace(
        resizes, pending={**resizes.pending, uid: ResizePending(reason, message, since)}, moment=moment
    )


# --- what makes a resize infeasible -------------------------------------------------------------


def infeasible(rules: Rules, pod: PodRequest, allocated: PodRequest, capacity: Mapping[str, int]) -> str:
    """Why a resize is infeasible, in the kubelet's words; '': it is not (rule 2)."""
    behaviour = rules.behaviour
    if pod.constraints.static and behaviour.static_pods_keep_their_size:
        return STATIC_POD
    if rules.resize.limited_swap and _changes_swap(pod, allocated):
        return SWAP
    if pod.guaranteed:
        if rules.cpu_static and not rules.resize.exclusive_cpus and _concerns(rules, pod, allocated, CPU):
            return _manager_message(rules, "CPU", "static")
        if (
            rules.memory_static
            and not rules.resize.exclusive_memory
            and _concerns(rules, pod, allocated, MEMORY)
        ):
            return _manager_message(rules, "Memory", "Static")
    return _beyond(rules, pod, capacity) if behaviour.resizes_end_at_capacity else ""


def _manager_message(rules: Rules, manager: str, policy: str) -> str:
    named = f'policy "{policy}"' if rules.behaviour.managers_mind_their_own_resize else "static policy"
    return f"Resize is infeasible for Guaranteed Pods alongside {manager} Manager {named}"


def _concerns(rules: Rules, pod: PodRequest, allocated: PodRequest, resource: str) -> bool:
    """True when a resize is a manager's business."""
    if not rules.behaviour.managers_mind_their_own_resize:
        return True
    return any(
        _amount(one, resource) != _amount(other, resource)
        for one, other in zip(pod.containers, allocated.containers, strict=True)
        if resizable(rules, one)
    )


def _amount(container: ContainerRequest, resource: str) -> int:
    amount = container.requests.get(resource)
    return amount.nano if amount else 0


def _changes_swap(pod: PodRequest, allocated: PodRequest) -> bool:
    return any(
        _amount(one, MEMORY) != _amount(other, MEMORY)
        and MEMORY not in one.restarts_for
        and (_swaps(pod, one) or _swaps(allocated, other))
        for one, other in zip(pod.containers, allocated.containers, strict=True)
    )


def _swaps(pod: PodRequest, container: ContainerRequest) -> bool:
    """True when a container may swap where this is limited."""
    if pod.qos != BURSTABLE or pod.constraints.critical:
        return False
    limit = container.limits.get(MEMORY)
    return _amount(container, MEMORY) != (limit.nano if limit else 0)


def _beyond(rules: Rules, pod: PodRequest, capacity: Mapping[str, int]) -> str:
    """Why a resize asks for too much of the whole node; '': it does not."""
    for name in (MEMORY, CPU):
        wanted = _whole_request(rules, pod, name)
        if name in capacity and wanted > capacity[name]:
            amounts = f"requested: {wanted}, capacity: {capacity[name]}"
            return f"Node didn't have enough capacity: {name}, {amounts}"
    return ""


def _whole_request(rules: Rules, pod: PodRequest, name: str) -> int:
    """What a pod asks for; its overhead counts only where it asks for anything."""
    counted = rules.behaviour.resize_capacity_counts_sidecars
    if pod.pod_level and counted:
        wanted = size_of(name, (pod.requests or {}).get(name))
    else:
        lasting = [
            one if counted or one.role is not Role.SIDECAR else replace(one, role=Role.INIT)
            for one in pod.containers
        ]
        wanted = most_at_once(lasting, lambda container: size_of(name, container.requests.get(name)))
    return wanted + size_of(name, pod.overhead.get(name)) if wanted else 0
