"""Nodes of which another exporter publishes zones: how much is free by NUMA node, not who has it.

What is said of such a node is careful, not exact: a yes can be relied on as far as the object is true and its
numbers are all that counts (options of the CPU policy, NUMA nodes whose memory is given out as a group and
links between devices are not in it); a no may be one too many.

Rules kept here:

1. Looked at are a pod's device resources, and the CPUs (whole ones) and memory of a Guaranteed pod, as far as
   a zone lists them.  What no zone lists has no NUMA nodes and is left to the sums.
2. ``single-numa-node``: one zone must have all; by container in scope ``container``, the lowest zone first as
   the kubelet chooses it, everything of the pod in scope ``pod``.
3. ``restricted``: all resources must need the same number of zones at least, by what zones have in
   all, and that many zones together must have enough.
4. ``best-effort`` and ``none`` refuse nothing; the sums of the zones must suffice.
5. Pods that the object may not count yet are taken off every zone as a whole.  What has ended since
   stays taken until the object says otherwise.
6. A fingerprint tells which pods were counted: all that are bound, or all but those bound last.  Without one
   that fits, pods count as new that were bound less than ``SLACK`` seconds before the object was written.
7. Of what a zone says is free, no more counts than it says that pods may get.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from numawise.codec.cluster_pod import ClusterPod
from numawise.codec.fingerprint import ALL, EXCLUSIVE, fingerprint
from numawise.codec.hardware.nrt import NodeTopology
from numawise.codec.hardware.nrt_write import FINGERPRINT, FINGERPRINT_METHOD
from numawise.errors import ClusterError
from numawise.request.model import CPU, EPHEMERAL, GUARANTEED, HUGEPAGES, MEMORY, PodRequest, Role
from numawise.results.cluster import NodeRating
from numawise.rules.model import RESTRICTED, SINGLE
from numawise.values import dataclass

REFUSED = "TopologyAffinityError"
SLACK = 30.0
MOST_UNCOUNTED = 32
"""So many pods that were bound last are left out of a fingerprint, one after the other."""
MOST_SETS = 5000
"""Sets of zones that are tried."""
Amounts = dict[str, int]


@dataclass(frozen=True, slots=True)
class ForeignZones:
    """What an object of another exporter says of a node."""

    policy: str
    scope: str
    available: Mapping[int, Mapping[str, int]]
    """Zone → resource → CPUs, bytes or devices that nobody has."""
    allocatable: Mapping[int, Mapping[str, int]]
    written: float = 0.0
    """When the object was last written, in seconds since 1970."""
    fingerprint: str = ""
    exclusive: bool = False
    """The fingerprint counts pods with something of their own alone."""


def foreign_zones(topology: NodeTopology, written: float) -> ForeignZones | str:
    """The zones of an object, or why nothing can be concluded from them."""
    if not topology.policy:
        return "its NodeResourceTopology does not name the kubelet's topology policy"
    if not any(topology.available.values()):
        return "its NodeResourceTopology does not say what is free"
    known = {name: size for own in topology.available.values() for name, size in own.items()}
    method = topology.attributes.get(FINGERPRINT_METHOD, ALL)
    return ForeignZones(
        topology.policy,
        topology.scope or "container",
        {
            zone: _at_most({name: own.get(name, 0) for name in known}, topology.allocatable.get(zone, {}))
            for zone, own in topology.available.items()
        },
        {zone: {name: own.get(name, 0) for name in known} for zone, own in topology.allocatable.items()},
        written,
        topology.attributes.get(FINGERPRINT, "") if method in (ALL, EXCLUSIVE) else "",
        exclusive=method == EXCLUSIVE,
    )


def _at_most(own: Mapping[str, int], bounds: Mapping[str, int]) -> Amounts:
    """Rule 7."""
    return {name: min(size, bounds.get(name, size)) for name, size in own.items()}


def uncounted(zones: ForeignZones, pods: Sequence[ClusterPod]) -> Sequence[ClusterPod]:
    """The pods of a node, in the order of their binding, that an object may not count yet (rule 6)."""
    if zones.fingerprint:
        listed = [pod for pod in pods if not zones.exclusive or _has_own(pod)]
        for late in range(min(len(listed), MOST_UNCOUNTED) + 1):
            kept = listed[: len(listed) - late]
            try:
                if fingerprint((pod.namespace, pod.name) for pod in kept) == zones.fingerprint:
                    return listed[len(listed) - late :]
            except ClusterError:  # the extra is not installed
                break
    return [pod for pod in pods if (pod.bound or pod.created) > zones.written - SLACK]


def _has_own(pod: ClusterPod) -> bool:
    """Whether a pod is given something of its own, as a fingerprint of that kind counts it."""
    if pod.raw is None:
        return True
    names = {name for one in pod.raw.containers for name in (*one.requests, *one.limits)}
    return pod.raw.qos in ("", GUARANTEED) or any(map(_is_device, names))


def less(zones: ForeignZones, pods: Iterable[PodRequest]) -> Mapping[int, Mapping[str, int]]:
    """What zones have when pods are taken off each of them (rule 5)."""
    left = {zone: dict(own) for zone, own in zones.available.items()}
    for pod in pods:
        for name, size in _whole(pod, zones).items():
            for own in left.values():
                if name in own:
                    own[name] = max(0, own[name] - size)
    return left


def judged(zones: ForeignZones, left: Mapping[int, Mapping[str, int]], pod: PodRequest) -> NodeRating | None:
    """What letting a pod in would mean; None: it may be refused."""
    whole = _whole(pod, zones)
    if not whole:
        return NodeRating(None, 0)
    sums = {name: sum(own.get(name, 0) for own in left.values()) for name in whole}
    if any(size > sums[name] for name, size in whole.items()):
        return None
    if zones.policy == SINGLE:
        mask = _single(zones, left, pod, whole)
    elif zones.policy == RESTRICTED:
        mask = _restricted(zones, left, pod, whole)
    else:
        return NodeRating(None, 0)
    if mask is None:
        return None
    rest = {
        name: sum(own.get(name, 0) for zone, own in left.items() if mask >> zone & 1) - size
        for name, size in whole.items()
    }
    devices = sum(max(0, size) for name, size in rest.items() if _is_device(name))
    return NodeRating(True, mask, left=(devices, max(0, rest.get(CPU, 0))))


# --- what is asked of zones -------------------------------------------------------------------


def _is_device(name: str) -> bool:
    return name not in (CPU, MEMORY, EPHEMERAL) and not name.startswith(HUGEPAGES)


def _of(pod: PodRequest, requests: Mapping[str, object], zones: ForeignZones) -> Amounts:
    """What one container, or a pod as a whole, asks of zones (rule 1)."""
    amounts: Amounts = {}
    listed = next(iter(zones.available.values()), {})
    for name, amount in requests.items():
        size = getattr(amount, "value", 0)
        if name not in listed or not size:
            continue
        if _is_device(name):
            amounts[name] = size
        elif pod.qos == GUARANTEED:
            milli = getattr(amount, "milli", 0)
            if name != CPU:
                amounts[name] = size
            elif milli % 1000 == 0:
                amounts[name] = milli // 1000
    return amounts


def _whole(pod: PodRequest, zones: ForeignZones) -> Amounts:
    """What a pod asks of zones at once: the sum of its containers, or its largest init container."""
    if pod.requests is not None:
        names = {name: amount for one in pod.containers for name, amount in one.requests.items()}
        devices = {name: amount for name, amount in names.items() if _is_device(name)}
        own = _of(pod, pod.requests, zones)
        if not devices:
            return own
    together: Amounts = {}
    first: Amounts = {}
    for one in pod.containers:
        amounts = _of(pod, one.requests, zones)
        if one.role is Role.INIT:
            for name, size in amounts.items():
                first[name] = max(first.get(name, 0), together.get(name, 0) + size)
        else:
            for name, size in amounts.items():
                together[name] = together.get(name, 0) + size
    return {name: max(together.get(name, 0), first.get(name, 0)) for name in {**together, **first}}


def _parts(zones: ForeignZones, pod: PodRequest, whole: Amounts) -> list[Amounts]:
    """What is aligned at a time: the pod, or one container after the other."""
    if zones.scope == "pod" or pod.requests is not None:
        return [whole]
    return [amounts for one in pod.containers if (amounts := _of(pod, one.requests, zones))]


def _single(
    zones: ForeignZones, left: Mapping[int, Mapping[str, int]], pod: PodRequest, whole: Amounts
) -> int | None:
    """The zones that a pod would be on (rule 2)."""
    mask = 0
    free = {zone: dict(own) for zone, own in sorted(left.items())}
    for part in _parts(zones, pod, whole):
        zone = next((zone for zone, own in free.items() if _has(own, part)), None)
        if zone is None:
            return None
        for name, size in part.items():
            free[zone][name] -= size
        mask |= 1 << zone
    return mask


def _restricted(
    zones: ForeignZones, left: Mapping[int, Mapping[str, int]], pod: PodRequest, whole: Amounts
) -> int | None:
    """Likewise (rule 3)."""
    mask = 0
    free = {zone: dict(own) for zone, own in sorted(left.items())}
    for part in _parts(zones, pod, whole):
        widths = {_fewest(zones.allocatable, name, size) for name, size in part.items()}
        width = widths.pop()
        if widths or not width:
            return None
        chosen = None
        for number, some in enumerate(combinations(free, width)):
            if number == MOST_SETS:
                break
            if all(sum(free[zone].get(name, 0) for zone in some) >= size for name, size in part.items()):
                chosen = some
                break
        if chosen is None:
            return None
        for name, size in part.items():
            rest = size
            for zone in chosen:
                taken = min(rest, free[zone].get(name, 0))
                free[zone][name] -= taken
                rest -= taken
        mask |= sum(1 << zone for zone in chosen)
    return mask


def _has(own: Mapping[str, int], part: Amounts) -> bool:
    return all(own.get(name, 0) >= size for name, size in part.items())


def _fewest(allocatable: Mapping[int, Mapping[str, int]], name: str, size: int) -> int:
    """The fewest zones that could ever have so much; 0: not even all."""
    rest = size
    for number, most in enumerate(
        sorted((own.get(name, 0) for own in allocatable.values()), reverse=True), 1
    ):
        rest -= most
        if rest <= 0:
            return number
    return 0
