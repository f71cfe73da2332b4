"""``nvidia-smi topo -m`` texts as found: the golden parse, or a refusal where that is expected."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from numawise.codec.hardware.nvidia_topo import read
from numawise.errors import InputError
from numawise.machine.hardware import Hardware, Remark
from numawise.sets import ids_of, parse_ids

NAME = "nvidia-topo"
REMARK = {  # what a reader should say about a text that is not whole
    "truncated": ("unknown", "rows"),
    "gpu_rows_only": ("unknown", "rows"),
    "asymmetric": ("odd", "links"),
}


def cases(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Each case of the folder, and the places where we read something else."""
    for path in sorted(folder.glob("*.json")):
        told = json.loads(path.read_text())
        with path.with_suffix(".txt").open(newline="") as file:
            yield path.stem, differences(file.read(), told)


def differences(text: str, told: Mapping[str, Any]) -> list[str]:
    """Where the text is read otherwise than it should be."""
    expect = told["expect"]
    try:
        found = read(text, told["case"])
    except InputError as error:
        return [] if expect in ("reject", "glued") else [f"refused: {error}"]
    if expect == "reject":
        return ["was not refused"]
    return [*_compared(found, told["golden"]), *_remarked(found.remarks, expect)]


def _compared(found: Hardware, golden: Mapping[str, Any]) -> Iterator[str]:
    matrix = found.matrix
    assert matrix is not None
    names = golden["nic_names"] or {}
    pairs: list[tuple[str, object, object]] = [
        ("gpus", list(matrix.gpus), golden["gpus"]),
        ("nics", list(matrix.nics), golden["nics"]),
        ("cpu_affinity", dict(matrix.cpu_affinity), golden["cpu_affinity"] or {}),
        ("numa_affinity", dict(matrix.numa_affinity), golden["numa_affinity"] or {}),
        ("gpu_numa_id", dict(matrix.gpu_numa_id), golden["gpu_numa_id"] or {}),
        # issue-vllm-7904 closes its code fence behind the last name, and the golden took it for a part of it
        ("nic_names", dict(matrix.nic_names), {nic: name.rstrip("`") for nic, name in names.items()}),
    ]
    yield from (f"{place}: {mine!r}, not {theirs!r}" for place, mine, theirs in pairs if mine != theirs)
    for row in {*matrix.links, *golden["links"]}:
        mine, theirs = dict(matrix.links.get(row, {})), golden["links"].get(row, {})
        if mine != theirs:
            yield f"links of {row}: {mine!r}, not {theirs!r}"
    for gpu in found.gpus:
        cpus, numa = (golden[key] or {} for key in ("cpu_affinity", "numa_affinity"))
        if gpu.cpus is not None and gpu.cpus != parse_ids(cpus[gpu.name]):
            yield f"CPUs of {gpu.name}: {gpu.cpus:#x}, not {cpus[gpu.name]}"
        if gpu.numa is not None and gpu.numa != tuple(ids_of(parse_ids(numa[gpu.name]))):
            yield f"NUMA nodes of {gpu.name}: {gpu.numa}, not {numa[gpu.name]}"


def _remarked(remarks: tuple[Remark, ...], expect: str) -> Iterator[str]:
    given = {(remark.kind, remark.place) for remark in remarks}
    if expect in REMARK and REMARK[expect] not in given:
        yield f"there is no remark that it is {expect}"
    if expect == "ok":
        doubts = [remark for remark in remarks if "cuts long lists short" not in remark.text]
        yield from (f"remarks on {remark.place}: {remark.text}" for remark in doubts if remark.kind != "odd")
