"""Many nodes in words: a row for each node and each workload, who fits nowhere, and the same as data."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from numawise.codec.decision import container_rows
from numawise.engine.predicates import PODS
from numawise.render.alignment import alignment_verdict, noteworthy
from numawise.render.simulation import Row, aligned_data
from numawise.render.terminal import GREEN, RED, YELLOW
from numawise.render.words import amount_text, counted
from numawise.request.defaults import RawPod
from numawise.request.model import CPU, MEMORY
from numawise.results.plain import API_VERSION
from numawise.results.simulation import NOWHERE, PLACED, REJECTED, FleetNode, FleetRun, Sent
from numawise.rules.versions import shown

NODE_COLUMNS = ("NODE", "PODS", "CPU", "EXCLUSIVE", "MEMORY", "DEVICES")
WORK_COLUMNS = ("WORKLOAD", "PODS", "PLACED", "ON")
MOST_NAMED = 4
Data = dict[str, Any]


def node_rows(fleet: FleetRun) -> list[Row]:
    """A row for each node; neighbours that look alike share one."""
    rows: list[Row] = []
    for figures, alike in groupby(fleet.nodes, key=_figures):
        nodes = list(alike)
        name = nodes[0].name
        if len(nodes) > 1:
            name = f"{name} … {nodes[-1].name} ({len(nodes)})"
        rows.append([name, *figures])
    return rows


def _figures(node: FleetNode) -> tuple[str, ...]:
    devices = [
        f"{resource} {node.requested.get(resource, 0)}/{node.allocatable[resource]}"
        for resource in node.resources
    ]
    return (
        str(node.pods),
        _share(node, CPU),
        str(node.exclusive_cpus),
        _share(node, MEMORY),
        ", ".join(devices) or "-",
    )


def _share(node: FleetNode, name: str) -> str:
    asked, limit = node.requested.get(name, 0), node.allocatable.get(name, 0)
    if name == MEMORY:
        return f"{asked / 2**30:.1f}/{limit / 2**30:.1f} GiB"
    return f"{amount_text(name, asked)}/{amount_text(name, limit)}"


def work_rows(fleet: FleetRun) -> list[Row]:
    """A row for each workload: how many of its pods run, and where."""
    rows: list[Row] = []
    for name, sent in _workloads(fleet.sent).items():
        placed = [one for one in sent if one.verdict == PLACED]
        style = GREEN if len(placed) == len(sent) else YELLOW if placed else RED
        rows.append([name, str(len(sent)), (str(len(placed)), style), _where(placed)])
    return rows


def _workloads(sent: Sequence[Sent]) -> dict[str, list[Sent]]:
    found: dict[str, list[Sent]] = {}
    for one in sent:
        found.setdefault(workload(one.pod), []).append(one)
    return found


def workload(pod: RawPod) -> str:
    """Whose pod it is."""
    name = pod.owner.partition(" ")[2] or pod.name
    return name if pod.namespace == "default" else f"{pod.namespace}/{name}"


def _where(placed: Sequence[Sent]) -> str:
    """``a-0 (8), a-1 (8) and 3 more nodes``."""
    counts = Counter(one.node for one in placed)
    if not counts:
        return "-"
    named = [f"{node} ({many})" if many > 1 else node for node, many in list(counts.items())[:MOST_NAMED]]
    more = len(counts) - MOST_NAMED
    return ", ".join(named) + (f" and {counted(more, 'more node')}" if more > 0 else "")


def notes(fleet: FleetRun) -> Iterator[str]:
    """Why pods run nowhere, and what of the others is not aligned, those alike together."""
    workloads = _workloads(fleet.sent)
    yield from _failures(workloads)
    for name, sent in workloads.items():
        verdicts = Counter(text for one in sent if (text := _unaligned(one)))
        for text, count in verdicts.items():
            who = f"{name}: {count} of {len(sent)} pods " if len(sent) > 1 else f"{name}: "
            yield f"{who}{text[0].lower()}{text[1:]}"


def _unaligned(one: Sent) -> str:
    """What is to be said of a pod that found a node; '' when everything is together."""
    alignment = one.outcome.alignment if one.outcome is not None and one.verdict == PLACED else None
    return alignment_verdict(alignment) if alignment is not None and noteworthy(alignment) else ""


def _failures(workloads: Mapping[str, Sequence[Sent]]) -> Iterator[str]:
    for name, sent in workloads.items():
        failed = [one for one in sent if one.verdict != PLACED]
        for (verdict, reasons), alike in groupby(failed, key=lambda one: (one.verdict, one.reasons)):
            some = list(alike)
            who = counted(len(some), "pod")
            if verdict == REJECTED:
                where = _where(some)
                yield f"{name}: {who} rejected by the kubelet of {where}: {reasons[0][0]}"
            else:
                refusals = ", ".join(f"{reason} on {counted(many, 'node')}" for reason, many in reasons)
                yield (
                    f"{name}: {who} fit nowhere: {refusals}"
                    if len(some) > 1
                    else f"{name}: fits nowhere: {refusals}"
                )
            why = next((one.why for one in some if one.why), "")
            if why:
                yield f"    for example {why}"


def summary(fleet: FleetRun) -> str:
    """``980 of 1000 pods placed on 40 nodes``."""
    text = f"{fleet.placed} of {len(fleet.sent)} pods placed on {counted(len(fleet.nodes), 'node')}"
    rejected = sum(one.verdict == REJECTED for one in fleet.sent)
    if rejected:
        text += f", {rejected} rejected by a kubelet"
    nowhere = sum(one.verdict == NOWHERE for one in fleet.sent)
    if nowhere:
        text += f", {nowhere} {'fits' if nowhere == 1 else 'fit'} nowhere"
    if fleet.interrupted:
        text += f"; interrupted, {fleet.total - len(fleet.sent)} not tried"
    return text


def fleet_data(fleet: FleetRun) -> Data:
    """All of it as plain data."""
    found: Data = {
        "apiVersion": API_VERSION,
        "kind": "FleetSimulation",
        "choice": fleet.choice,
        "placed": fleet.placed,
        "rejected": sum(one.verdict == REJECTED for one in fleet.sent),
        "nowhere": sum(one.verdict == NOWHERE for one in fleet.sent),
        "nodes": [_node_data(one) for one in fleet.nodes],
        "pods": [_sent_data(one) for one in fleet.sent],
    }
    if fleet.interrupted:
        found["interrupted"] = True
    return found


def _node_data(node: FleetNode) -> Data:
    return {
        "name": node.name,
        "kubernetes": shown(node.version),
        "pods": node.pods,
        "rejected": node.rejected,
        "exclusive_cpus": node.exclusive_cpus,
        "resources": {
            name: {
                "allocatable": _number(name, limit),
                "requested": _number(name, node.requested.get(name, 0)),
            }
            for name, limit in node.allocatable.items()
            if name != PODS or limit
        },
    }


def _number(name: str, size: int) -> int | float:
    """CPUs as a number of CPUs, memory in bytes."""
    if name == CPU:
        return size // 1000 if size % 1000 == 0 else size / 1000
    return size


def _sent_data(one: Sent) -> Data:
    found: Data = {
        "name": one.pod.name,
        "namespace": one.pod.namespace,
        "uid": one.pod.uid,
        "workload": workload(one.pod),
        "verdict": one.verdict,
        "node": one.node or None,
    }
    if one.outcome is not None and one.verdict == PLACED:
        found |= aligned_data(one.outcome)
        found["containers"] = container_rows(one.outcome)
    if one.reasons:
        found["reasons"] = [{"reason": reason, "nodes": many} for reason, many in one.reasons]
    if one.why:
        found["why"] = one.why
    return found
