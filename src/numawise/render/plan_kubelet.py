"""A planned configuration as a file with its reasons, and as data."""

from collections.abc import Iterator

from numawise.apps.plan.kubelet import KubeletPlan
from numawise.apps.plan.reserve import MEBI
from numawise.codec.output import Entry, annotated_yaml
from numawise.machine.hardware import Hardware
from numawise.quantity import Quantity
from numawise.render.picture.layout import summary
from numawise.render.words import clean
from numawise.results.plain import API_VERSION
from numawise.rules.versions import shown

FEW = 16
"""NUMA nodes up to which each has its line."""
Data = dict[str, object]


def plan_yaml(plan: KubeletPlan, hardware: Hardware) -> str:
    """The configuration, ready to be used, with its reasons as comments."""
    return annotated_yaml(plan.entries, tuple(_header(plan, hardware)))


def _header(plan: KubeletPlan, hardware: Hardware) -> Iterator[str]:
    wish = plan.wish
    name = clean(hardware.name) or "this machine"
    yield f"{name}: {summary(hardware)}"
    yield f"For {wish.goal}, Kubernetes {shown(wish.version)}. Tried by simulation: {plan.trial}."
    yield "It says what the managers need; keep the other fields of your configuration beside it."
    rooms = [one for one in plan.rooms if one.cpus or one.memory or one.devices]
    if len(rooms) <= FEW:
        for one in rooms:
            yield f"NUMA {one.numa} can give {_room(one.cpus, one.memory, one.devices)}."
    for size, count in wish.hugepages:
        nodes = ",".join(f"{numa}:{count}" for numa in plan.machine.layout.numas)
        page = size.removesuffix("i")
        yield "Have the kernel set the huge pages aside when it boots:"
        yield f"  hugepagesz={page} hugepages={nodes}"
    for remark in plan.remarks:
        yield f"Note: {remark}"


def _room(cpus: int, memory: int, devices: tuple[tuple[str, int], ...]) -> str:
    parts = [f"{cpus} CPUs", str(Quantity.of(memory // MEBI * MEBI))]
    parts += [f"{count} {resource}" for resource, count in devices]
    return ", ".join(parts)


def plan_data(plan: KubeletPlan, hardware: Hardware) -> Data:
    """The plan as JSON."""
    return {
        "apiVersion": API_VERSION,
        "kind": "KubeletPlan",
        "machine": {"name": hardware.name or None, "summary": summary(hardware)},
        "goal": plan.wish.goal,
        "kubernetes": shown(plan.wish.version),
        "configuration": plan.config,
        "reasons": dict(_reasons(plan.entries, "")),
        "rooms": [
            {"numa": one.numa, "cpus": one.cpus, "memory": one.memory, "devices": dict(one.devices)}
            for one in plan.rooms
        ],
        "trial": plan.trial,
        "remarks": list(plan.remarks),
    }


def _reasons(entries: tuple[Entry, ...], path: str) -> Iterator[tuple[str, str]]:
    for entry in entries:
        name = f"{path}.{entry.name}" if path else entry.name
        if entry.why:
            yield name, entry.why
        value = entry.value
        if isinstance(value, tuple) and value and isinstance(value[0], Entry):
            yield from _reasons(tuple(one for one in value if isinstance(one, Entry)), name)
