"""What the API server adds to a manifest before the kubelet sees it, and the pod's QoS class."""

from collections.abc import Callable, Sequence

from numawise.quantity import Quantity
from numawise.request.claims import PodClaim
from numawise.request.constraints import NO_CONSTRAINTS, NODE_IS_NOT_READY, PodConstraints
from numawise.request.model import (
    BEST_EFFORT,
    BURSTABLE,
    CPU,
    GUARANTEED,
    HUGEPAGES,
    MEMORY,
    Amounts,
    ContainerRequest,
    PodRequest,
    Role,
    most_at_once,
)
from numawise.values import dataclass, field, replace

COUNTED = (CPU, MEMORY)


def qos_class(containers: Sequence[tuple[Amounts, Amounts]]) -> str:
    """Class of a pod whose containers have these (requests, limits).

    Guaranteed when every container limits both CPU and memory and the *sums* of requests and
    limits agree; a pod with pod-level resources is judged as if it were one container.
    """
    requests = dict.fromkeys(COUNTED, 0)
    limits = dict.fromkeys(COUNTED, 0)
    limited_everywhere = True
    for wanted, allowed in containers:
        for name in COUNTED:
            requests[name] += max(0, _nano(wanted.get(name)))
            limit = max(0, _nano(allowed.get(name)))
            limits[name] += limit
            limited_everywhere = limited_everywhere and limit > 0
    if not any(requests.values()) and not any(limits.values()):
        return BEST_EFFORT
    return GUARANTEED if limited_everywhere and requests == limits else BURSTABLE


def _nano(amount: Quantity | None) -> int:
    return amount.nano if amount else 0


# --------------------------------------------------------------------------------------------------
# What the API server and the scheduler add to a manifest before the kubelet sees it.
#
# Rules kept here:
#
# 1. A missing request is copied from the limit of the same name, per container.
# 2. Quantities are rounded up to thousandths.  A field of a feature that is off is dropped.
# 3. With pod-level resources, a missing pod-level limit of a huge-page size is what the containers are
#    limited to together, unless there is a pod-level request for it.
# 4. With pod-level limits, a missing pod-level request of CPU or memory is what the containers ask for
#    together when they ask for any, else the pod-level limit.
# 5. A pod tolerates for some minutes that its node is not ready; a static pod never passes the API server.
# 6. Extended resources for which a DeviceClass stands, and of which the node has none, come by a claim that
#    the scheduler makes; it says so in the pod's status.


@dataclass(frozen=True, slots=True)
class RawContainer:
    """A container as written in a manifest."""

    name: str
    role: Role
    requests: Amounts = field(default_factory=dict)
    limits: Amounts = field(default_factory=dict)
    restarts_for: frozenset[str] = frozenset()
    """Resources whose change restarts the container (``resizePolicy``)."""
    claimed: frozenset[str] = frozenset()
    """Extended resources that a claim backs for it."""
    backed: frozenset[str] = frozenset()
    """Extended resources that a claim gives where the node has none: a known DeviceClass stands for them."""


@dataclass(frozen=True, slots=True)
class AllocatedSizes:
    """The sizes that the kubelet has given a pod, where its spec asks for others."""

    containers: tuple[RawContainer, ...]
    requests: Amounts | None = None
    limits: Amounts | None = None
    """Of the pod as a whole."""


@dataclass(frozen=True, slots=True)
class RawPod:
    """A pod as written in a manifest; init containers stand before app containers."""

    uid: str
    name: str
    containers: tuple[RawContainer, ...]
    requests: Amounts | None = None
    limits: Amounts | None = None
    namespace: str = "default"
    overhead: Amounts = field(default_factory=dict)
    """What the runtime class adds (``spec.overhead``)."""
    qos: str = ""
    """``status.qosClass`` when the manifest carries it."""
    owner: str = ""
    """Who makes it anew when it fails, such as ``StatefulSet db``; '' when nobody is known."""
    allocated: AllocatedSizes | None = None
    """The sizes it has, where its spec asks for others; None: those of its spec."""
    constraints: PodConstraints = NO_CONSTRAINTS
    claims: tuple[PodClaim, ...] = ()
    """Claims whose devices it gets."""

    @property
    def as_allocated(self) -> "RawPod":
        """The pod with the sizes that it has."""
        sizes = self.allocated
        if sizes is None:
            return self
        return replace(
            self, containers=sizes.containers, requests=sizes.requests, limits=sizes.limits, allocated=None
        )


MOST_REMEMBERED = 2048
_remembered: dict[int, tuple[RawPod, object, PodRequest]] = {}
"""What was last made of a pod, by identity: an agent asks for the same pods again and again."""


def defaulted(
    raw: RawPod, *, pod_level: bool = True, sidecars: bool = True, claimed: frozenset[str] = frozenset()
) -> PodRequest:
    """The request that reaches the kubelet; the gates PodLevelResources and SidecarContainers.

    ``claimed``: extended resources that the scheduler gives by claim on this node.
    """
    settings = pod_level, sidecars, claimed
    known = _remembered.get(id(raw))
    if known is not None and known[0] is raw and known[1] == settings:
        return known[2]
    request = _defaulted(raw, pod_level=pod_level, sidecars=sidecars, claimed=claimed)
    if len(_remembered) >= MOST_REMEMBERED:
        _remembered.clear()
    _remembered[id(raw)] = raw, settings, request
    return request


def _defaulted(raw: RawPod, *, pod_level: bool, sidecars: bool, claimed: frozenset[str]) -> PodRequest:
    raw = _by_claim(raw, claimed) if claimed else raw
    containers = tuple(_container(c, sidecars=sidecars) for c in raw.containers)
    requests, limits = raw.requests, raw.limits
    if not pod_level:
        requests = limits = None
    present = requests is not None or limits is not None
    if present:
        limits = {name: amount.ceil_milli() for name, amount in (limits or {}).items()}
        requests = {name: amount.ceil_milli() for name, amount in (requests or {}).items()}
        limits = _pod_limits(requests, limits, containers)
        requests = _pod_requests(requests, limits, containers)
    qos = raw.qos or qos_class(
        [(requests or {}, limits or {})] if present else [(c.requests, c.limits) for c in containers]
    )
    return PodRequest(
        uid=raw.uid,
        name=raw.name,
        namespace=raw.namespace,
        qos=qos,
        containers=containers,
        requests=requests if present else None,
        limits=limits if present else None,
        overhead={name: amount.ceil_milli() for name, amount in raw.overhead.items()},
        constraints=_constraints(raw.constraints),
        claims=raw.claims,
    )


ORDINARY = replace(NO_CONSTRAINTS, tolerations=NODE_IS_NOT_READY)


def _constraints(raw: PodConstraints) -> PodConstraints:
    """Rule 5."""
    if raw is NO_CONSTRAINTS:
        return ORDINARY
    if raw.static:
        return raw
    missing = tuple(one for one in NODE_IS_NOT_READY if one not in raw.tolerations)
    return replace(raw, tolerations=(*raw.tolerations, *missing)) if missing else raw


def _by_claim(raw: RawPod, claimed: frozenset[str]) -> RawPod:
    """Rule 6."""
    containers = tuple(
        replace(one, claimed=one.claimed | (one.backed & claimed)) if one.backed & claimed else one
        for one in raw.containers
    )
    users = tuple(one.name for one in containers if one.claimed & claimed)
    claim = PodClaim(name="", containers=users, resources=tuple(sorted(claimed)))
    return replace(raw, containers=containers, claims=(*raw.claims, claim))


def _container(raw: RawContainer, *, sidecars: bool) -> ContainerRequest:
    limits = {name: amount.ceil_milli() for name, amount in raw.limits.items()}
    requests = {name: amount.ceil_milli() for name, amount in raw.requests.items()}
    for name, amount in limits.items():
        requests.setdefault(name, amount)
    role = Role.INIT if raw.role is Role.SIDECAR and not sidecars else raw.role
    return ContainerRequest(raw.name, role, requests, limits, raw.restarts_for, raw.claimed)


def _pod_limits(
    requests: Amounts, limits: Amounts, containers: Sequence[ContainerRequest]
) -> dict[str, Quantity]:
    """Rule 3."""
    filled = dict(limits)
    if requests or limits:
        for name in sorted({name for c in containers for name in c.limits if name.startswith(HUGEPAGES)}):
            if name not in filled and name not in requests:
                filled[name] = _together(containers, name, lambda c: c.limits)
    return filled


def _pod_requests(
    requests: Amounts, limits: Amounts, containers: Sequence[ContainerRequest]
) -> dict[str, Quantity]:
    """Rule 4."""
    filled = dict(requests)
    if not limits:
        return filled
    for name in (CPU, MEMORY):
        if name not in filled and any(name in c.requests for c in containers):
            filled[name] = _together(containers, name, lambda c: c.requests)
    for name, amount in limits.items():
        if name in (CPU, MEMORY) or name.startswith(HUGEPAGES):
            filled.setdefault(name, amount)
    return filled


def _together(
    containers: Sequence[ContainerRequest], name: str, amounts: Callable[[ContainerRequest], Amounts]
) -> Quantity:
    """The most of one resource that the containers need at one time."""
    found = [amounts(c)[name] for c in containers if name in amounts(c)]
    style = next((amount.style for amount in found if amount.nano), found[0].style)
    nano = most_at_once(containers, lambda c: amounts(c)[name].nano if name in amounts(c) else 0)
    return Quantity(nano, style, exact=all(amount.exact for amount in found))
