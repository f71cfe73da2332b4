"""What containers are allocated, where their spec asks for something else: a resize waits, or is on its way.

Rules kept here:

1. The kubelet counts what it has allocated.  Its record of that (``allocated_pods_state``) comes first; then
   ``allocatedResources`` of the pod's status; then, where the status says that a resize waits, ``resources``
   there.  What cannot be read counts as the spec has it.
2. A status has no allocated limits: one that equals its request changes with it, any other is the one that
   the status shows.
"""

from collections.abc import Mapping
from typing import Any

from numawise.codec.checkpoint.reading import AllottedPod
from numawise.codec.document import mapping, number_text
from numawise.codec.pod_phase import CONTAINER_STATUSES, container_statuses
from numawise.quantity import Quantity
from numawise.request.defaults import AllocatedSizes, RawContainer, RawPod
from numawise.request.model import Amounts, Role
from numawise.values import replace

RESIZE_PENDING = "PodResizePending"
BLANK = " \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"


def quantity(value: object) -> Quantity:
    """A quantity as it stands in a manifest; raise ``ValueError`` in the API server's words."""
    if isinstance(value, str):
        return Quantity.parse(value.strip(BLANK))
    if value is None:
        return Quantity()
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Quantity.parse(number_text(value))
    return Quantity.parse("true")  # anything else is refused like this


def plain_amounts(value: Mapping[str, object] | None) -> dict[str, Quantity]:
    """Amounts by resource out of plain values."""
    return {name: quantity(amount) for name, amount in value.items()} if value else {}


def allocated_by_status(pod: RawPod, spec: Mapping[str, Any], status: Mapping[str, Any]) -> RawPod:
    """A pod with what its status says it is allocated."""
    if not sizes_differ(spec, status):
        return pod
    waits = _waits(status)
    rows = {str(row.get("name")): row for row in container_statuses(status)}
    containers = tuple(_by_status(one, rows.get(one.name, {}), waits=waits) for one in pod.containers)
    requests, limits = pod.requests, pod.limits
    if requests is not None or limits is not None:
        whole = _by_status(RawContainer("", Role.APP, requests or {}, limits or {}), status, waits=False)
        requests, limits = whole.requests, whole.limits
    return _with_sizes(pod, AllocatedSizes(containers, requests, limits))


def _waits(status: Mapping[str, Any]) -> bool:
    conditions = status.get("conditions")
    rows = map(mapping, conditions if isinstance(conditions, list) else ())
    return any(row.get("type") == RESIZE_PENDING and row.get("status") == "True" for row in rows)


def sizes_differ(spec: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    """Whether a pod waits for a size, or its allocation is written otherwise than what its spec asks for."""
    if _waits(status):
        return True
    asked: dict[object, object] = {}
    for name in ("initContainers", "containers"):
        rows = spec.get(name)
        for row in map(mapping, rows if isinstance(rows, list | tuple) else ()):
            asked[str(row.get("name"))] = mapping(row.get("resources")).get("requests")
    own = mapping(mapping(spec.get("resources")).get("requests"))
    whole = mapping(status.get("allocatedResources"))
    return any(name in whole and whole[name] != amount for name, amount in own.items()) or any(
        row.get("allocatedResources") not in (None, {}, asked.get(str(row.get("name"))))
        for row in container_statuses(status)
    )


def allocated_words(pod: object) -> list[object]:
    """All that a pod's status says of its allocation, to see whether it changed."""
    status = mapping(mapping(pod).get("status"))
    words: list[object] = [_waits(status), status.get("allocatedResources")]
    for row in container_statuses(status):
        words += [row.get("allocatedResources"), row.get("resources")]
    return words


def status_by_record(status: Mapping[str, Any], record: AllottedPod) -> dict[str, Any]:
    """A pod's status with what its kubelet has recorded."""
    found, left = dict(status), dict(record)
    for name in CONTAINER_STATUSES:
        listed = status.get(name)
        rows = [dict(mapping(row)) for row in listed] if isinstance(listed, list) else []
        for row in rows:
            if (own := left.pop(str(row.get("name")), None)) is not None:
                row |= _as_status(own)
        found |= {name: rows} if rows else {}
    if left:
        found["containerStatuses"] = [
            *found.get("containerStatuses", ()),
            *({"name": name, **_as_status(own)} for name, own in left.items()),
        ]
    return found | (_as_status(record.whole) if record.whole is not None else {})


def _as_status(resources: Mapping[str, Any]) -> dict[str, Any]:
    return {"allocatedResources": resources.get("requests"), "resources": dict(resources)}


def allocated_by_record(pod: RawPod, record: AllottedPod) -> RawPod:
    """A pod with what its kubelet has recorded."""
    containers = tuple(
        _recorded(one, record[one.name]) if one.name in record else one for one in pod.containers
    )
    requests, limits = pod.requests, pod.limits
    if record.whole is not None:
        own = _recorded(RawContainer("", Role.APP), record.whole)
        requests, limits = own.requests, own.limits
    return _with_sizes(pod, AllocatedSizes(containers, requests, limits))


def _with_sizes(pod: RawPod, sizes: AllocatedSizes) -> RawPod:
    spec = AllocatedSizes(pod.containers, pod.requests, pod.limits)
    if sizes == spec:
        return replace(pod, allocated=None) if pod.allocated is not None else pod
    return replace(pod, allocated=sizes)


def _by_status(container: RawContainer, status: Mapping[str, Any], *, waits: bool) -> RawContainer:
    actual = mapping(status.get("resources"))
    given = status.get("allocatedResources") or (actual.get("requests") if waits else None)
    try:
        requests, shown = plain_amounts(given), plain_amounts(actual.get("limits"))
    except (AttributeError, TypeError, ValueError):
        return container
    changed: dict[str, Quantity] = {}
    limits = dict(container.limits)
    for name, amount in requests.items():
        asked = container.requests.get(name, container.limits.get(name))
        if asked is None or asked.nano == amount.nano:
            continue
        changed[name] = amount
        if name in limits:
            limits[name] = amount if limits[name].nano == asked.nano else shown.get(name, limits[name])
    if waits:
        limits |= {name: amount for name, amount in shown.items() if name in limits and name not in changed}
    if not changed and _nano(limits) == _nano(container.limits):
        return container
    return replace(container, requests={**container.requests, **changed}, limits=limits)


def _recorded(container: RawContainer, resources: Mapping[str, Any]) -> RawContainer:
    try:
        requests, limits = plain_amounts(resources.get("requests")), plain_amounts(resources.get("limits"))
    except (AttributeError, TypeError, ValueError):
        return container
    asked = {**container.limits, **container.requests}
    if _nano(limits) == _nano(container.limits) and _nano({**limits, **requests}) == _nano(asked):
        return container
    return replace(container, requests=requests, limits=limits)


def _nano(amounts: Amounts) -> dict[str, int]:
    return {name: amount.nano for name, amount in amounts.items()}
