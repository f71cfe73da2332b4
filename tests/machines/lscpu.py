"""``lscpu`` and ``lscpu -e`` texts as found: counts, online CPUs and NUMA nodes, or a row for each CPU."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from numawise.codec.hardware.lscpu import LscpuSummary, read, summary
from numawise.machine.hardware import Hardware
from numawise.sets import format_ids, parse_ids

NAME = "lscpu"
FIELDS = {
    "architecture": "architecture", "vendor": "vendor", "model_name": "model", "hypervisor": "hypervisor", "l3": "l3",
    "cpus": "cpus", "threads_per_core": "threads_per_core", "cores_per_socket": "cores_per_socket",
    "sockets": "sockets", "numa_nodes_count": "numa_count",
}  # fmt: skip


def cases(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Each case of the folder, and the places where we read something else."""
    for path in sorted(folder.glob("*.json")):
        with path.with_suffix(".txt").open(newline="") as file:
            yield path.stem, differences(file.read(), json.loads(path.read_text()))


def differences(text: str, told: Mapping[str, Any]) -> list[str]:
    """Where the text is read otherwise than it should be."""
    golden, found = told["golden"], read(text, told["case"])
    pairs = _rows(found, golden) if "columns" in told else _summary(summary(text), found, golden)
    return [f"{place}: {mine!r}, not {theirs!r}" for place, mine, theirs in pairs if mine != theirs]


def _rows(found: Hardware, golden: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[str, object, object]]:
    cpus = {cpu: row for cpu, row in golden.items() if row["online"] == "yes"}
    yield "cpus", [str(thread.cpu) for thread in found.threads], list(cpus)
    for thread in found.threads:
        mine = {"node": thread.numa, "socket": thread.socket, "core": thread.core}
        row = cpus.get(str(thread.cpu), {})
        yield f"CPU {thread.cpu}", mine, {name: int(row[name]) for name in mine if name in row}


def _summary(
    printed: LscpuSummary, found: Hardware, golden: Mapping[str, Any]
) -> Iterator[tuple[str, object, object]]:
    for name, ours in FIELDS.items():
        mine = getattr(printed, ours)
        yield name, None if mine == "" else mine, golden.get(name)
    yield "online", format_ids(printed.online or 0), format_ids(parse_ids(golden["online"]))
    yield "offline", format_ids(printed.offline or 0), format_ids(parse_ids(golden.get("offline", "")))
    numa = {int(number): parse_ids(cpus) for number, cpus in golden.get("numa_nodes", {}).items()}
    yield "numa", {node.id: node.cpus for node in found.numa}, numa
    homes = {
        cpu: number for number, cpus in numa.items() for cpu in range(cpus.bit_length()) if cpus >> cpu & 1
    }
    online = parse_ids(golden["online"])
    threads = {cpu: homes.get(cpu) for cpu in range(online.bit_length()) if online >> cpu & 1}
    yield "threads", {thread.cpu: thread.numa for thread in found.threads}, threads
