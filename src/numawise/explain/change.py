"""Changes to a pod or to a configuration, as values and as what to edit.

Rules kept here:

1. An amount is set wherever the manifest writes it: in requests, in limits, or in both.  Nothing else of the
   manifest changes.
2. Amounts are written so that the kubelet reads them as integers.
3. What a change does to the values here and what its JSON Patch does to the files is the same.
"""

from collections.abc import Mapping, Sequence

from numawise.quantity import BINARY, DECIMAL, Quantity
from numawise.request.defaults import RawPod
from numawise.request.model import HUGEPAGES, MEMORY, Amounts, Role
from numawise.results.explanation import Patch
from numawise.rules.model import KubeletConfig, ReservedMemory
from numawise.values import dataclass, replace

MI = 1 << 20
SIDES = ("requests", "limits")
CONFIG_FIELDS: Mapping[str, str] = {
    "cpuManagerPolicy": "cpu_manager_policy",
    "cpuManagerPolicyOptions": "cpu_manager_policy_options",
    "memoryManagerPolicy": "memory_manager_policy",
    "reservedMemory": "reserved_memory",
    "topologyManagerPolicy": "topology_manager_policy",
    "topologyManagerScope": "topology_manager_scope",
    "topologyManagerPolicyOptions": "topology_manager_policy_options",
    "systemReserved": "system_reserved",
    "kubeReserved": "kube_reserved",
    "reservedSystemCPUs": "reserved_system_cpus",
    "systemReservedCgroup": "system_reserved_cgroup",
    "kubeReservedCgroup": "kube_reserved_cgroup",
    "evictionHard": "eviction_hard",
    "enforceNodeAllocatable": "enforce_node_allocatable",
    "featureGates": "feature_gates",
}


@dataclass(frozen=True, slots=True)
class SetAmount:
    """So much of a resource for one container (its number; None: the pod's own resources)."""

    container: int | None
    resource: str
    amount: Quantity | None
    """None: do without it."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A value for a field of the configuration, or for one entry of a map; None: take it out."""

    path: tuple[str, ...]
    value: object = None


def written(value: int, resource: str) -> Quantity:
    """An amount as one would write it (rule 2)."""
    style = BINARY if resource == MEMORY or resource.startswith(HUGEPAGES) else DECIMAL
    return Quantity.parse(str(Quantity.of(value, style)))


def page_size(resource: str) -> int:
    """Bytes that amounts of a memory type come in."""
    if resource.startswith(HUGEPAGES):
        return Quantity.parse(resource.removeprefix(HUGEPAGES)).value
    return MI


# --- pods -----------------------------------------------------------------------------------


def with_amounts(raw: RawPod, changes: Sequence[SetAmount]) -> RawPod:
    """The pod with other amounts (rule 1)."""
    containers = list(raw.containers)
    for change in changes:
        name, size = change.resource, change.amount
        if change.container is None:
            raw = replace(raw, requests=_set(raw.requests, name, size), limits=_set(raw.limits, name, size))
            continue
        one = containers[change.container]
        containers[change.container] = replace(
            one, requests=_put(one.requests, name, size), limits=_put(one.limits, name, size)
        )
    return replace(raw, containers=tuple(containers))


def _set(amounts: Amounts | None, name: str, size: Quantity | None) -> Amounts | None:
    return None if amounts is None else _put(amounts, name, size)


def _put(amounts: Amounts, name: str, size: Quantity | None) -> Amounts:
    if name not in amounts:
        return amounts
    if size is None:
        return {other: amount for other, amount in amounts.items() if other != name}
    return {**amounts, name: size}


def amount_patches(raw: RawPod, changes: Sequence[SetAmount]) -> tuple[Patch, ...]:
    """The same as an edit of the manifest."""
    patches = []
    for change in changes:
        if change.container is None:
            place: tuple[str | int, ...] = ("spec",)
            sides: Sequence[Amounts | None] = (raw.requests, raw.limits)
        else:
            place = place_of(raw, change.container)
            one = raw.containers[change.container]
            sides = (one.requests, one.limits)
        for side, amounts in zip(SIDES, sides, strict=True):
            if amounts is not None and change.resource in amounts:
                path = (*place, "resources", side, change.resource)
                if change.amount is None:
                    patches.append(Patch("remove", path))
                else:
                    patches.append(Patch("replace", path, str(change.amount)))
    return tuple(patches)


def place_of(raw: RawPod, number: int) -> tuple[str | int, ...]:
    """Where a container stands in the manifest."""
    inits = sum(one.role is not Role.APP for one in raw.containers)
    if number < inits:
        return ("spec", "initContainers", number)
    return ("spec", "containers", number - inits)


def sides_of(raw: RawPod, number: int | None, resource: str) -> str:
    """Where an amount is written: ``requests and limits``, ``limits``."""
    owner = raw if number is None else raw.containers[number]
    return " and ".join(side for side in SIDES if resource in (getattr(owner, side) or {}))


# --- configurations -------------------------------------------------------------------------


def with_settings(
    config: KubeletConfig, settings: Sequence[Setting], defaults: KubeletConfig | None = None
) -> KubeletConfig:
    """The configuration with other values; ``defaults``: what a field has when it is taken out."""
    for setting in settings:
        name, *rest = setting.path
        field = CONFIG_FIELDS.get(name, "other")
        value = setting.value
        if field == "other" or rest:
            key = rest[0] if rest else name
            entries = dict(getattr(config, field))
            entries.pop(key, None)
            if setting.value is not None:
                entries[key] = setting.value
            value = entries
        elif value is None:
            value = getattr(defaults or KubeletConfig(), field)
        elif name == "reservedMemory":
            value = reserved_memory(value)
        config = replace(config, **{field: value})  # type: ignore[arg-type]
    return config


def reserved_memory(value: object) -> tuple[ReservedMemory, ...]:
    """Entries of ``reservedMemory`` as the kubelet reads them."""
    assert isinstance(value, list)
    return tuple(
        ReservedMemory(
            entry["numaNode"], tuple((name, Quantity.parse(size)) for name, size in entry["limits"].items())
        )
        for entry in value
    )


def setting_patches(config: KubeletConfig, settings: Sequence[Setting]) -> tuple[Patch, ...]:
    """The same as an edit of the KubeletConfiguration."""
    patches = []
    for setting in settings:
        name, *rest = setting.path
        if setting.value is None:
            patches.append(Patch("remove", setting.path))
        elif rest and not getattr(config, CONFIG_FIELDS[name]):
            patches.append(Patch("add", (name,), {rest[0]: setting.value}))
        else:
            patches.append(Patch("add", setting.path, setting.value))
    return tuple(patches)
