"""NCCL topologies of cloud machines: NUMA nodes with their CPUs, GPUs and NICs."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from numawise.codec.hardware.nccl import read
from numawise.machine.hardware import GPU, NIC, Hardware

NAME = "nccl-topo"


def cases(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Each file of the folder, and the places where we read something else."""
    listed = folder / "sources.json"
    for case in json.loads(listed.read_text()) if listed.exists() else ():
        text = (folder / case["file"]).read_text()
        yield case["file"], differences(read(text, case["file"]), case["golden"])


def differences(found: Hardware, told: Mapping[str, Any]) -> list[str]:
    masks = {int(cpu["numaid"]): int((cpu["affinity"] or "0").replace(",", ""), 16) for cpu in told["cpus"]}
    pairs: list[tuple[str, object, object]] = [
        ("numa", {node.id: node.cpus for node in found.numa}, masks),
        ("cpus", {t.cpu: t.numa for t in found.threads}, _homes(masks)),
    ]
    for kind, name in ((GPU, "gpus"), (NIC, "nics")):
        mine = [device.address for device in found.pci if device.kind == kind]
        pairs.append((name, mine, [one["busid"] for one in told[name]]))
    return [f"{place}: {mine!r}, not {theirs!r}" for place, mine, theirs in pairs if mine != theirs]


def _homes(masks: Mapping[int, int]) -> dict[int, int]:
    return {cpu: numa for numa, mask in masks.items() for cpu in range(mask.bit_length()) if mask >> cpu & 1}
