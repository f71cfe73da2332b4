"""Ready machines by name: what public documentation says about them, as data.

Rules kept here:

1. The machines are ``data/catalog.toml``, which says how its fields are meant.
2. Every entry names its source; what the source leaves open is filled in and appears among the remarks.
"""

import tomllib
from collections.abc import Callable, Mapping
from typing import Any

from numawise.datafile import data_text
from numawise.errors import InputError, meant, quoted
from numawise.machine.build import NOT_GIVEN, MachinePlan, Slot, build, with_distances
from numawise.machine.hardware import GPU, NIC, NVME, Hardware
from numawise.quantity import Quantity
from numawise.strconv import whole_number
from numawise.values import dataclass, replace

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """One ready machine."""

    summary: str
    source: str
    plan: MachinePlan


def slots(text: str, model: str = "", memory: int | None = None) -> tuple[Slot, ...]:
    """Read devices: NUMA node, colon, devices; ``+`` joins what shares a switch, ``/`` ports of a card."""
    found: list[Slot] = []
    numa = NOT_GIVEN
    for word in text.split():
        if word.endswith(":"):
            numa = NOT_GIVEN if word == "-:" else int(word[:-1])
            continue
        for name in word.replace("/", "+").split("+"):
            kind = GPU if name.startswith("GPU") else NVME if name.startswith("nvme") else NIC
            slot = Slot(name, kind, numa, word if "+" in word else "", word if "/" in word else "")
            found.append(replace(slot, model=model, memory=memory) if kind == GPU else slot)
    return tuple(sorted(found, key=lambda slot: (slot.kind != GPU, slot.kind, _number(slot.name))))


def _number(name: str) -> int:
    digits = "".join(c for c in name.rpartition("_")[2] if c.isdecimal())
    return whole_number(digits or "0")


def _gpu_memory(hardware: Hardware, first: Mapping[int, int], sizes: Mapping[int, int]) -> Hardware:
    """GPU memory as NUMA nodes: which node is whose, and that most of them are empty."""
    nodes = tuple(
        replace(node, memory=sizes.get(node.id, 0), note="GPU") if not node.cpus else node
        for node in hardware.numa
    )
    gpus = tuple(replace(gpu, own_numa=first[i]) for i, gpu in enumerate(hardware.gpus))
    matrix = hardware.matrix
    if matrix:
        matrix = replace(matrix, gpu_numa_id={gpu: str(first[i]) for i, gpu in enumerate(matrix.gpus)})
    total = sum(node.memory or 0 for node in nodes)
    return replace(hardware, numa=nodes, gpus=gpus, matrix=matrix, memory_capacity=total)


def _gb200(hardware: Hardware) -> Hardware:
    """Nodes 2-33 are GPU memory, eight numbers for each GPU, the first of them in use."""
    found = _gpu_memory(hardware, {0: 2, 1: 10, 2: 18, 3: 26}, dict.fromkeys((2, 10, 18, 26), 188416 * MIB))

    def distance(one: int, other: int) -> int:
        if one == other:
            return 10
        low, high = min(one, other), max(one, other)
        if high < 2:
            return 40
        if low >= 2:
            return 11 if (low - 2) // 8 == (high - 2) // 8 else 40
        return 80 if (high - 2) // 16 == low else 120

    return with_distances(found, {i: {j: distance(i, j) for j in range(34)} for i in range(34)})


def _grace_hopper(hardware: Hardware) -> Hardware:
    found = _gpu_memory(hardware, {0: 1}, {1: 97280 * MIB})
    rows = {i: {j: 10 if i == j else 80 if 0 in (i, j) else 255 for j in range(9)} for i in range(9)}
    return with_distances(found, rows)


FINISH: Mapping[str, Callable[[Hardware], Hardware]] = {"gb200": _gb200, "grace-hopper": _grace_hopper}
"""What a plan cannot say about a machine."""


def _entry(fields: dict[str, Any]) -> CatalogEntry:
    model, memory = fields.pop("gpu_model", ""), _bytes(fields.pop("gpu_memory", None))
    devices = slots(fields.pop("devices", ""), model, memory)
    for name in ("address", "uuid"):
        given = fields.pop("gpu_addresses" if name == "address" else "gpu_uuids", ())
        devices = tuple(
            replace(slot, **{name: given[at]}) if at < len(given) else slot for at, slot in enumerate(devices)
        )
    summary, source = fields.pop("summary"), fields.pop("source")
    fields["memory"] = tuple(Quantity.parse(size).value for size in fields["memory"])
    fields["l3_size"] = _bytes(fields.get("l3_size"))
    fields["assumed"] = tuple(fields.get("assumed", ()))
    return CatalogEntry(summary, source, MachinePlan(slots=devices, **fields))


def _bytes(size: str | None) -> int | None:
    return None if size is None else Quantity.parse(size).value


CATALOG: Mapping[str, CatalogEntry] = {
    name: _entry(fields) for name, fields in tomllib.loads(data_text(__file__, "catalog.toml")).items()
}
"""All ready machines, by name."""


def machine_named(name: str) -> Hardware:
    """A machine of the catalogue; raise ``InputError`` when there is none of that name."""
    entry = CATALOG.get(name)
    if entry is None:
        near = meant(name, CATALOG)
        advice = f"did you mean {quoted(near)}? " if near else ""
        raise InputError(
            f"there is no machine {quoted(name)} in the catalogue",
            advice=f"{advice}known are {', '.join(CATALOG)}",
        )
    hardware = build(replace(entry.plan, name=name, source=f"catalogue: {entry.source}"))
    return FINISH[name](hardware) if name in FINISH else hardware
