"""Nodes of a cluster as a table: what is free by NUMA node, holes, what fits, and how that is known."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby

from numawise.quantity import Quantity
from numawise.render.simulation import Row
from numawise.render.terminal import DIM, GREEN, RED, YELLOW
from numawise.render.words import both, bytes_text, counted
from numawise.request.model import CPU, MEMORY
from numawise.results.node_room import (
    CONSERVATIVE,
    EXACT,
    GIVEN,
    STALE,
    UNKNOWN,
    NodeRoom,
    NodesReport,
)
from numawise.results.plain import document

FEW_NUMA = 4
MOST_NOTES = 10
MOST_SHAPES = 8
STYLES = {EXACT: GREEN, CONSERVATIVE: YELLOW, STALE: YELLOW, UNKNOWN: RED, GIVEN: ""}
GIB = 2**30


def node_columns(report: NodesReport, *, wide: bool = False) -> tuple[str, ...]:
    """The heads of the columns; a policy that all nodes share is said below the table."""
    resources = device_resources(report)
    devices = _short(resources[0]).upper() if len(resources) == 1 else "DEVICES"
    policy = ("POLICY",) if wide or not common_policy(report) else ()
    head = ("NODE", *policy, "CPUS", "GIB", devices, "HOLES", "FITS", "KNOWN")
    return (*head, "PODS", "LARGEST", "NOTES") if wide else head


def node_rows(report: NodesReport, *, wide: bool = False) -> list[Row]:
    """A row for each node."""
    resources = device_resources(report)
    policies = wide or not common_policy(report)
    titles = shape_titles(report)
    rows: list[Row] = []
    for node in report.nodes:
        places = f"({node.places}{'+' if node.more else ''})"
        fits: tuple[str, str] = ("-", DIM)
        if node.fits:
            fits = (f"{node.fits if wide else titles.get(node.fits, node.fits)} {places}", "")
        elif report.shapes and node.known != UNKNOWN:
            fits = ("nothing", RED)
        row: Row = [
            node.name,
            *([policy_text(node) or ("-", DIM)] if policies else []),
            _amounts(node, CPU, 1, 1000),
            _amounts(node, MEMORY, GIB, GIB),
            _devices(node, resources),
            ("-", DIM) if node.holes is None else (holes_text(node), YELLOW) if node.holes else "0",
            fits,
            (node.known, STYLES.get(node.known, "")),
        ]
        if wide:
            row += [str(node.pods), node.largest or "-", "; ".join(node.notes) or "-"]
        rows.append(row)
    return rows


def policy_text(node: NodeRoom) -> str:
    """``single-numa-node/pod``; '': it is not known."""
    return f"{node.policy}/{node.scope}" if node.scope == "pod" and node.policy else node.policy


def common_policy(report: NodesReport) -> str:
    """The policy of all nodes of which one is known; '': they differ."""
    policies = {policy_text(node) for node in report.nodes if node.policy}
    return policies.pop() if len(policies) == 1 else ""


def shape_titles(report: NodesReport) -> dict[str, str]:
    """As much of the name of a shape as tells it from the others: ``4 gpu`` of ``4 gpu, 88 cpu, 900Gi``."""
    names = [shape.name for shape in report.shapes]
    titles = {}
    for name in names:
        parts = name.split(", ")
        starts = (", ".join(parts[:count]) for count in range(1, len(parts) + 1))
        titles[name] = next(
            (one for one in starts if sum(f"{other}, ".startswith(f"{one}, ") for other in names) == 1), name
        )
    return titles


def holes_text(node: NodeRoom) -> str:
    """``3 gpu``, ``12 cpu``."""
    return _amount(node.unit, node.holes or 0)


def _amount(unit: str, size: int) -> str:
    if unit == CPU:
        return f"{Quantity(size * 10**6)} cpu"
    return bytes_text(size) if unit == MEMORY else f"{size} {_short(unit)}"


def per_numa(values: Sequence[int]) -> str:
    """``30|12``; of more NUMA nodes neighbours that are equal share one: ``4x14|2x12|2x0``."""
    if len(values) <= FEW_NUMA:
        return "|".join(map(str, values))
    groups = [(value, len(list(alike))) for value, alike in groupby(values)]
    return "|".join(f"{count}x{value}" if count > 1 else str(value) for value, count in groups)


def _amounts(node: NodeRoom, name: str, numa_unit: int, unit: int) -> str | tuple[str, str]:
    """What is free of CPUs or memory; without NUMA nodes as the sum of the whole node."""
    listed = [numa.free[name] for numa in node.numa if name in numa.free]
    if listed:
        return per_numa([size // numa_unit for size in listed])
    return f"any {node.free[name] // unit}" if name in node.free else ("-", DIM)


def _devices(node: NodeRoom, resources: Sequence[str]) -> str | tuple[str, str]:
    parts = []
    titles = _titles(resources)
    for resource in resources:
        listed = [numa.free[resource] for numa in node.numa if resource in numa.free]
        if listed:
            text = per_numa([numa.free.get(resource, 0) for numa in node.numa])
        elif node.free.get(resource) or (resource in node.free and not node.numa):
            text = f"any {node.free[resource]}"
        else:
            continue
        parts.append(text if len(resources) == 1 else f"{titles[resource]} {text}")
    return ", ".join(parts) or ("-", DIM)


def device_resources(report: NodesReport) -> list[str]:
    """The resources of devices that any node has."""
    names = {name for node in report.nodes for numa in node.numa for name in numa.free if "/" in name}
    names |= {name for node in report.nodes for name in node.free if "/" in name}
    return sorted(names)


def _titles(resources: Sequence[str]) -> dict[str, str]:
    """The last part of each name; whole names where that is not enough to tell them apart."""
    short = Counter(map(_short, resources))
    return {name: _short(name) if short[_short(name)] == 1 else name for name in resources}


def _short(resource: str) -> str:
    return resource.rpartition("/")[2]


def nodes_summary(report: NodesReport) -> str:
    """``20 nodes: 18 exact, 2 unknown; 12 of 34 free GPUs are of no use …; policy single-numa-node/pod``."""
    kinds = Counter(node.known for node in report.nodes)
    known = [f"{kinds[kind]} {kind}" for kind in STYLES if kinds[kind]]
    text = f"{counted(len(report.nodes), 'node')}: {', '.join(known)}" if known else "No nodes to show"
    parts = [_share(unit, *amounts) for unit, amounts in holes_by_unit(report.nodes).items() if amounts[1]]
    if parts:
        text += f"; {both(parts)} are of no use to the largest shapes"
    policy = common_policy(report)
    return f"{text}; policy {policy}" if policy else text


def holes_by_unit(nodes: Iterable[NodeRoom]) -> dict[str, tuple[int, int]]:
    """What is of no use, and what is free, of everything that holes are counted in."""
    holes: Counter[str] = Counter()
    free: Counter[str] = Counter()
    for node in nodes:
        if node.holes is not None:
            holes[node.unit] += node.holes
            free[node.unit] += node.free.get(node.unit, 0)
    return {unit: (holes[unit], free[unit]) for unit in sorted(free)}


def _share(unit: str, part: int, whole: int) -> str:
    """``3 of 19 free GPUs``."""
    if unit == CPU:
        return f"{Quantity(part * 10**6)} of {Quantity(whole * 10**6)} free CPUs"
    if unit == MEMORY:
        return f"{bytes_text(part)} of {bytes_text(whole)} free"
    name = _short(unit)
    return f"{part} of {whole} free {'GPUs' if name == 'gpu' else name}"


def nodes_legend(report: NodesReport) -> list[str]:
    """What the columns mean, and what was learned."""
    lines = ["CPUS, GIB and devices are what is free, by NUMA node; any: not given out by NUMA node"]
    if report.shapes:
        lines.append(
            "HOLES are free and of no use to the largest shape that the node takes when idle; FITS is the "
            "largest that it takes now (so many)"
        )
        shown = [shape.name for shape in report.shapes[:MOST_SHAPES]]
        rest = len(report.shapes) - len(shown)
        lines.append(f"shapes: {'; '.join(shown)}{f'; and {rest} smaller ones' if rest else ''}")
    else:
        lines.append("no pods are known here whose shapes could be tried, so HOLES and FITS are empty")
    return lines


def nodes_notes(report: NodesReport) -> list[str]:
    """What is wrong with nodes, a line each; equal sentences share one."""
    names: dict[str, list[str]] = {}
    for node in report.nodes:
        for note in node.notes:
            names.setdefault(note, []).append(node.name)
    lines = []
    for note, who in names.items():
        shown = both(who) if len(who) <= FEW_NUMA else f"{', '.join(who[:3])} and {len(who) - 3} other nodes"
        lines.append(f"{shown}: {note}")
    if len(lines) > MOST_NOTES:
        lines = [*lines[:MOST_NOTES], f"and {len(lines) - MOST_NOTES} other notes, with -o wide"]
    return lines


def nodes_data(report: NodesReport) -> dict[str, object]:
    """All of it as plain data."""
    return document("Nodes", report)
