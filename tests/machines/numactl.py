"""``numactl -H`` texts as found: nodes, CPUs, memory and distances."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from numawise.codec.hardware.numactl import listing, read
from numawise.sets import format_ids

NAME = "numactl"
MIB = 1 << 20


def cases(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Each case of the folder, and the places where we read something else."""
    for path in sorted(folder.glob("*.json")):
        with path.with_suffix(".txt").open(newline="") as file:
            yield path.stem, differences(file.read(), json.loads(path.read_text()))


def differences(text: str, told: Mapping[str, Any]) -> list[str]:
    """Where the text is read otherwise than it should be."""
    golden, printed, found = told["golden"], listing(text), read(text, told["case"])
    nodes = {
        str(number): {"cpus": format_ids(node.cpus or 0)}
        | ({} if node.size is None else {"size_mb": node.size // MIB})
        | ({} if node.free is None else {"free_mb": node.free // MIB})
        for number, node in printed.nodes.items()
    }
    distances = golden.get("distances", {"nodes": [], "rows": []})
    table = [list(printed.rows[number]) for number in printed.columns]
    pairs: list[tuple[str, object, object]] = [
        ("available", printed.available, golden["available"]),
        ("ids", printed.ids, golden["node_ids"]),
        ("nodes", nodes, golden["nodes"]),
        ("distances", {"nodes": list(printed.columns), "rows": table}, distances),
        ("no distances", printed.no_distances, golden.get("no_distance_information", False)),
        ("numa", {str(n.id): format_ids(n.cpus) for n in found.numa}, _cpus(golden["nodes"])),
        ("memory", [n.memory for n in found.numa], [_bytes(node) for node in golden["nodes"].values()]),
    ]
    return [f"{place}: {mine!r}, not {theirs!r}" for place, mine, theirs in pairs if mine != theirs]


def _cpus(nodes: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    return {number: node["cpus"] for number, node in nodes.items()}


def _bytes(node: Mapping[str, Any]) -> int | None:
    return node["size_mb"] * MIB if "size_mb" in node else None
