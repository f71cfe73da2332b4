"""A machine to judge by where none was given: one that nothing in the configuration or the state objects to.

It has the CPUs that are reserved or recorded, the NUMA nodes that are reserved on or recorded with the memory
that is recorded, and plenty of everything else.  What it says about hardware means nothing.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from numawise.codec.checkpoint import CPU_FILE, MEMORY_FILE
from numawise.codec.machine import MOST_NUMA
from numawise.machine.model import Cpu, Machine, Numa
from numawise.quantity import Quantity
from numawise.request.model import HUGEPAGES, MEMORY
from numawise.sets import ids_of, parse_ids
from numawise.strconv import whole_number

PLENTY_OF_CPUS, PLENTY_OF_MEMORY = 256, 1 << 42


def assumed_machine(raw: Mapping[str, Any], files: Mapping[str, str]) -> Machine:
    """A machine made up from a configuration and state files."""
    recorded = _recorded_cpus(files.get(CPU_FILE, ""))
    cpus = recorded or _cpus(raw.get("reservedSystemCPUs")) | (1 << PLENTY_OF_CPUS) - 1
    nodes = dict(_recorded_numa(files.get(MEMORY_FILE, "")))
    if not nodes:
        named = raw.get("reservedMemory")
        entries = named if isinstance(named, list | tuple) else ()
        ids = [entry.get("numaNode", 0) for entry in entries if isinstance(entry, Mapping)]
        known = {i for i in ids if isinstance(i, int) and 0 <= i < MOST_NUMA}
        nodes = {i: Numa(i, PLENTY_OF_MEMORY) for i in sorted(known | {0})}
    order = sorted(nodes)
    homes = [order[at % len(order)] for at in range(cpus.bit_count())]
    return Machine(
        cpus=tuple(Cpu(cpu, cpu, 0, numa) for cpu, numa in zip(ids_of(cpus), homes, strict=True)),
        numa=tuple(
            Numa(i, nodes[i].memory, nodes[i].hugepages, tuple(10 if i == j else 20 for j in order))
            for i in order
        ),
    )


def _cpus(text: object) -> int:
    try:
        return parse_ids(text) if isinstance(text, str) else 0
    except ValueError:
        return 0


def _parsed(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, Mapping) else {}


def _recorded_cpus(text: str) -> int:
    found = _parsed(text)
    cpus = _cpus(found.get("defaultCpuSet"))
    if not cpus:
        return 0
    entries = found.get("entries")
    for containers in entries.values() if isinstance(entries, Mapping) else ():
        for own in containers.values() if isinstance(containers, Mapping) else ():
            cpus |= _cpus(own)
    return cpus


def _recorded_numa(text: str) -> Iterator[tuple[int, Numa]]:
    state = _parsed(text).get("machineState")
    for key, node in state.items() if isinstance(state, Mapping) else ():
        if not (
            isinstance(key, str)
            and key.isdecimal()
            and whole_number(key) < MOST_NUMA
            and isinstance(node, Mapping)
        ):
            continue
        tables = node.get("memoryMap")
        tables = tables if isinstance(tables, Mapping) else {}
        pages = tuple(
            (name.removeprefix(HUGEPAGES), _total(table) // size)
            for name, table in sorted(tables.items())
            if (size := _page(name))
        )
        yield whole_number(key), Numa(whole_number(key), _total(tables.get(MEMORY)), pages)


def _total(table: object) -> int:
    total = table.get("total") if isinstance(table, Mapping) else 0
    return total if isinstance(total, int) and total >= 0 else 0


def _page(name: object) -> int:
    if not isinstance(name, str) or not name.startswith(HUGEPAGES):
        return 0
    try:
        return max(0, Quantity.parse(name.removeprefix(HUGEPAGES)).value)
    except ValueError:
        return 0
