"""``rocm-smi --showtopo`` texts as found: weights, hops, kinds of links and NUMA nodes."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from numawise.codec.hardware.rocm_topo import AFFINITY, read, tables

NAME = "rocm-topo"


def cases(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Each case of the folder, and the places where we read something else."""
    for path in sorted(folder.glob("*.json")):
        with path.with_suffix(".txt").open(newline="") as file:
            yield path.stem, differences(file.read(), json.loads(path.read_text()))


def differences(text: str, told: Mapping[str, Any]) -> list[str]:
    """Where the text is read otherwise than it should be."""
    gpus, golden = told["gpus"], told["golden"]
    printed, found = tables(text), read(text, told["case"])
    assert found.matrix is not None
    pairs: list[tuple[str, object, object]] = [
        ("gpus", list(found.matrix.gpus), gpus),
        ("numa", printed.numa, golden["numa"]),
        ("links", found.matrix.links, _links(gpus, golden["link_type"])),
        ("NUMA nodes", {gpu.name: gpu.numa for gpu in found.gpus}, _nodes(golden["numa"])),
    ]
    for name in ("weight", "hops", "link_type"):
        mine = {row: list(cells.values()) for row, cells in printed.squares[name].items()}
        pairs.append((name, mine, golden[name]))
    return [f"{place}: {mine!r}, not {theirs!r}" for place, mine, theirs in pairs if mine != theirs]


def _links(gpus: list[str], rows: Mapping[str, list[str]]) -> dict[str, dict[str, str]]:
    links = {row: dict(zip(gpus, cells, strict=True)) for row, cells in rows.items()}
    return {row: {to: "X" if to == row else link for to, link in links[row].items()} for row in links}


def _nodes(numa: Mapping[str, Mapping[str, str]]) -> dict[str, tuple[int, ...] | None]:
    return {gpu: (int(told[AFFINITY]),) if told[AFFINITY].isdigit() else None for gpu, told in numa.items()}
