"""What virtual nodes did, judged by somebody else: the managers and admit handlers of the kubelet's own Go code.

Rules kept here:

1. The history of a node is what the API server told: on which pods a verdict came and which ended, in the order in which
   the node said so.  It is played from an empty node through the program of ``tests/release`` (the allocation manager with all handlers and the
   four managers, unmodified), and verdict, reason and message of every pod are compared with the pod's status.
2. What that shows: the lab decides as kubelets do, and keeps their state over a whole history.  What it does not: how
   long a real kubelet takes, what containers do, and in which order a kubelet takes what comes at one moment: a history
   that differs is played again with neighbours in time exchanged, and that is said when it comes out the same then.
3. Pods that wait although a node would let them in: the published state of every node is asked, one by one, with the
   pods that are bound to it and not in that state yet left out of account (the cluster is at rest then).
"""

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml
from tests.release.__main__ import Managers
from tests.release.build import built

from e2e.book import PodLine
from e2e.world import NUMAWISE
from numawise.cluster.asking import Asker, LetIn, Situation, members_of
from numawise.codec.pod import pod_from
from numawise.inputs.node_groups import groups_of
from numawise.inputs.spec import NodeSpec

Steps = Sequence[tuple[str, PodLine]]
ONE_MOMENT = 0.5
"""Seconds between two things whose order is not sure: the server's order is that of the writes."""
REJECTED = "Pod was rejected: "
"""What a kubelet puts before the message in the pod's status."""


@dataclass(frozen=True)
class Play:
    """A node's history as it was played, and what differs."""

    node: str
    pods: int
    refused: int
    differences: tuple[str, ...]
    reordered: bool = False
    """It came out the same only with two things exchanged that happened at one moment."""


@cache
def machine_data(machine: str) -> dict[str, Any]:
    """A machine in the form of a scenario: a file, or words."""
    if Path(machine).exists():
        data = yaml.safe_load(Path(machine).read_text())
    else:
        command = [str(NUMAWISE), "machine", "new", *machine.split()]
        data = yaml.safe_load(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {key: data[key] for key in ("cpus", "numa", "memory_capacity", "devices") if key in data}


def history(node: str, lines: Iterable[PodLine]) -> list[tuple[str, PodLine]]:
    """What happened on a node, in the server's order."""
    steps: list[tuple[int, str, PodLine]] = []
    for line in lines:
        if line.node != node or (line.phase == "Pending" and not line.refused):
            continue
        steps.append((line.judged_order, "add", line))
        if line.ended_order and not line.refused:
            steps.append((line.ended_order, "remove", line))
    return [(kind, line) for _, kind, line in sorted(steps, key=lambda step: step[0])]


def scenario(
    node: str, machine: str, kubelet: Mapping[str, Any], release: str, steps: Steps
) -> dict[str, Any]:
    """A history as a scenario."""
    return {
        "id": node,
        "kubernetes": release,
        "admission": "all",
        "machine": machine_data(machine),
        "kubelet": {key: value for key, value in kubelet.items() if key not in ("apiVersion", "kind")},
        "steps": _scenario_steps(steps),
    }


def _scenario_steps(steps: Steps) -> list[dict[str, Any]]:
    return [
        {"add": {"metadata": _names(line), "spec": _spec(line)}} if kind == "add" else {"remove": line.uid}
        for kind, line in steps
    ]


def _names(line: PodLine) -> dict[str, Any]:
    return {"name": line.name, "namespace": line.namespace, "uid": line.uid}


def _spec(line: PodLine) -> dict[str, Any]:
    keys = ("containers", "initContainers", "overhead", "priority", "restartPolicy")
    return {key: line.spec[key] for key in keys if key in line.spec}


def played(program: Path, scenarios: Sequence[tuple[dict[str, Any], Steps]]) -> list[Play]:
    """Play histories through the kubelet's own code (rule 1)."""
    managers, plays = Managers(program), []
    for made, steps in scenarios:
        differences, reordered = _differences(managers, made, steps), False
        if differences and (other := _in_another_order(managers, made, steps)):
            differences, reordered = [], True
            steps = other
        added = [line for kind, line in steps if kind == "add"]
        refused = sum(line.refused for line in added)
        plays.append(Play(made["id"], len(added), refused, tuple(differences), reordered))
    managers.close()
    return plays


def _differences(managers: Managers, made: dict[str, Any], steps: Steps) -> list[str]:
    result = managers({**made, "steps": _scenario_steps(steps)})
    if "error" in result:
        return [f"the kubelet did not start: {result['error']}"]
    found = []
    for (kind, line), told in zip(steps, result["steps"], strict=True):
        if kind != "add":
            continue
        said = (line.reason, line.message.removeprefix(REJECTED)) if line.refused else ("", "")
        ours = (not line.refused, *said)
        theirs = (told["admitted"], told.get("reason", ""), told.get("message", ""))
        if ours != theirs:
            found.append(f"{line.name}: the lab {ours}, the kubelet's code {theirs}")
    return found


def _in_another_order(managers: Managers, made: dict[str, Any], steps: Steps) -> Steps | None:
    """The same history in the order of bindings, or with two neighbours exchanged that came at about one moment, if then
    nothing differs (rule 2)."""
    by_binding = sorted(
        steps, key=lambda step: step[1].bound_order if step[0] == "add" else step[1].ended_order
    )
    if not _differences(managers, made, by_binding):
        return by_binding
    for order in (steps, by_binding):
        for at, (first, second) in enumerate(pairwise(order)):
            if first[1] is second[1] or abs(_told(second) - _told(first)) > ONE_MOMENT:
                continue
            other = [*order[:at], second, first, *order[at + 2 :]]
            if not _differences(managers, made, other):
                return other
    return None


def _told(step: tuple[str, PodLine]) -> float:
    kind, line = step
    return (line.started or line.ended) if kind == "add" else line.ended


def managers_program(folder: Path, release: str) -> Path:
    """The program with the kubelet's own code, built once."""
    scratch = folder / "managers"
    program = scratch / f"nwharness-{release}"
    return program if program.exists() else built(release, scratch)


def left_waiting(
    waiting: Sequence[PodLine], topologies: Sequence[Mapping[str, Any]], folder: Path
) -> list[tuple[PodLine, str]]:
    """Pods that wait, and a node that would let each in (rule 3)."""
    if not waiting:
        return []
    file = folder / "topologies.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(topologies)}))
    members = members_of(groups_of([str(file)], NodeSpec()))
    asker = Asker(members)
    found = []
    for line in waiting:
        raw = pod_from({"metadata": _names(line), "spec": line.spec})
        fits = (member.name for member in members if isinstance(asker.ask(Situation.of(member), raw), LetIn))
        first = next(fits, None)
        if first is not None:
            found.append((line, first))
    return found
