"""Manifests as plain values: where the pod of an object is, its containers, amounts and volumes."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from numawise.codec.pod import TEMPLATES, quantity
from numawise.errors import InputError
from numawise.machine.hardware import GPU_RESOURCE
from numawise.quantity import BINARY, DECIMAL, Quantity

Object = dict[str, Any]
CPU, MEMORY = "cpu", "memory"
SHM = "/dev/shm"  # noqa: S108 - a mount point, nothing is written there
SERVICES = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController")
LISTS = "List"


def pod_objects(value: object) -> Iterator[Object]:
    """The objects of a document that make pods, lists opened."""
    if not isinstance(value, dict):
        return
    kind = str(value.get("kind", ""))
    if kind.endswith(LISTS) and isinstance(value.get("items"), list):
        for item in value["items"]:
            yield from pod_objects(item)
    elif kind in ("Pod", *TEMPLATES):
        yield value
    elif not kind and isinstance((value.get("spec") or {}).get("containers"), list):
        value["kind"] = "Pod"
        yield value


def pod_spec(found: Object) -> Object:
    """The pod spec inside an object."""
    if found["kind"] == "Pod":
        return _inside(found, "spec")
    steps, _ = TEMPLATES[found["kind"]]
    for step in (*steps, "template", "spec"):
        found = _inside(found, step)
    return found


def containers(spec: Object) -> list[Object]:
    """All containers, init containers first."""
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]


def amount(container: Object, side: str, name: str) -> Quantity | None:
    """What a container asks for, in requests or limits; None when it does not say."""
    value = ((container.get("resources") or {}).get(side) or {}).get(name)
    return None if value is None else quantity(value)


def devices(container: Object) -> dict[str, int]:
    """The devices of a container, by resource."""
    found: dict[str, int] = {}
    for side in ("requests", "limits"):
        for name in (container.get("resources") or {}).get(side) or {}:
            if "/" in name:
                asked = amount(container, side, name)
                found[name] = asked.value if asked else 0
    return {name: count for name, count in found.items() if count}


def gpus(container: Object) -> int:
    """How many GPUs a container asks for, whole or in parts."""
    return sum(count for name, count in devices(container).items() if GPU_RESOURCE.search(name))


def set_both(container: Object, name: str, value: object) -> None:
    """Let request and limit of a resource be the same."""
    resources = container.get("resources")
    if not isinstance(resources, dict):
        resources = container["resources"] = {}
    for side in ("requests", "limits"):
        if not isinstance(resources.get(side), dict):
            resources[side] = {}
        resources[side][name] = value


def shm_volume(spec: Object, container: Object) -> Object | None:
    """The volume that a container has as its shared memory."""
    for mount in container.get("volumeMounts") or ():
        if str(mount.get("mountPath", "")).rstrip("/") == SHM:
            for volume in spec.get("volumes") or ():
                if volume.get("name") == mount.get("name"):
                    return volume  # type: ignore[no-any-return]
    return None


def text_of(value: int, name: str) -> str:
    """An amount as one writes it."""
    return str(Quantity.of(value, DECIMAL if name == CPU else BINARY))


def copied(value: Object) -> Object:
    """A copy that shares nothing, so that nothing is written as an alias."""
    return deepcopy(value)


def _inside(found: Object, step: str) -> Object:
    inner = found.get(step)
    if not isinstance(inner, dict):
        raise InputError(f"{found.get('kind', 'the object')} has no {step}", advice="give a whole manifest")
    return inner
