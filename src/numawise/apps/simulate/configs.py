"""The same scenario under two configurations, side by side.

Rules kept here:

1. Both get the same machine, state files, release and steps.
2. Two outcomes of a pod differ when its verdict or anything a container has of its own is otherwise; the way
   it was decided (hints, affinity) and the CPUs of the shared pool do not count.
"""

from collections.abc import Sequence
from typing import Any

from numawise.engine.admit import Crashed, Rejected
from numawise.machine.model import Machine
from numawise.render.simulation import (
    COLUMNS,
    Row,
    container_rows,
    filled_data,
    pod_notes,
    pod_rows,
    whole_data,
)
from numawise.render.table import DIM, YELLOW
from numawise.results.plain import API_VERSION
from numawise.results.simulation import ScenarioRun, Simulated
from numawise.rules.versions import shown
from numawise.values import dataclass

BOTH, MARK, NOT_REACHED = "both", "*", "not reached"
Data = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PodPair:
    """One pod under both configurations; None: the kubelet was gone by then."""

    uid: str
    name: str
    first: Simulated | None
    second: Simulated | None

    @property
    def differs(self) -> bool:
        """Rule 2."""
        return _facts(self.first) != _facts(self.second)


def paired(first: ScenarioRun, second: ScenarioRun) -> tuple[PodPair, ...]:
    """Every pod with both outcomes, in the order they came."""
    found = []
    ones = {one.pod.uid: one for one in first.pods}
    others = {one.pod.uid: one for one in second.pods}
    for uid in dict.fromkeys((*ones, *others)):
        one, other = ones.get(uid), others.get(uid)
        known = one or other
        assert known is not None
        found.append(PodPair(uid, known.pod.name, one, other))
    return tuple(found)


def differing(first: ScenarioRun, second: ScenarioRun) -> bool:
    """Whether the two configurations make any difference."""
    counts = [[one.count for one in run.fills] for run in (first, second)]
    return (
        any(one.differs for one in paired(first, second))
        or counts[0] != counts[1]
        or first.lost != second.lost
        or first.ended != second.ended
    )


def _facts(one: Simulated | None) -> object:
    if one is None:
        return None
    decision = one.decision
    if isinstance(decision, Rejected):
        return (decision.reason, decision.message)
    if isinstance(decision, Crashed):
        return decision.message
    return [
        (row["cpus"] if row["exclusive"] else "", row["memory"], row["devices"], row.get("start_error"))
        for row in container_rows(one)
    ]


def columns() -> tuple[str, ...]:
    """Head of the table."""
    return ("", COLUMNS[0], COLUMNS[1], "UNDER", *COLUMNS[2:])


def rows(pods: Sequence[PodPair], names: tuple[str, str]) -> list[Row]:
    """One row for what is the same, two marked ones for what is not."""
    found: list[Row] = []
    for pod in pods:
        if not pod.differs and pod.first is not None:
            found += [["", *row[:2], (BOTH, DIM), *row[2:]] for row in pod_rows(pod.first)]
            continue
        for one, name in zip((pod.first, pod.second), names, strict=True):
            if one is None:
                found.append([(MARK, YELLOW), pod.name, "-", name, NOT_REACHED, *["-"] * 5])
            else:
                found += [[(MARK, YELLOW), *row[:2], name, *row[2:]] for row in pod_rows(one)]
    return found


def notes(pods: Sequence[PodPair], names: tuple[str, str]) -> list[str]:
    """Why pods were refused that the other configuration lets in, or refuses otherwise."""
    found = []
    for pod in pods:
        for one, name in zip((pod.first, pod.second), names, strict=True):
            if one is not None and pod.differs:
                found += [line if line.startswith(" ") else f"{name}: {line}" for line in pod_notes(one)]
    return found


def summary(first: ScenarioRun, second: ScenarioRun, names: tuple[str, str]) -> str:
    """``2 of 6 pods differ: kubelet.yaml admits 4, other.yaml 6``."""
    pods = paired(first, second)
    count = sum(one.differs for one in pods)
    told = f"{names[0]} admits {first.admitted} of {first.total}, {names[1]} {second.admitted}"
    if not count:
        return f"no pod differs: {told}"
    return f"{count} of {len(pods)} pods {'differs' if count == 1 else 'differ'}: {told}"


def comparison_data(
    first: ScenarioRun, second: ScenarioRun, names: tuple[str, str], machine: Machine
) -> Data:
    """Both as plain data."""
    runs = (first, second)
    pods = paired(first, second)
    found: Data = {
        "apiVersion": API_VERSION,
        "kind": "ConfigComparison",
        "kubernetes": shown(first.version),
        "configs": list(names),
        "admitted": [run.admitted for run in runs],
        "rejected": [run.total - run.admitted for run in runs],
        "lost": [run.lost for run in runs],
        "differing": sum(one.differs for one in pods),
        "pods": [
            {
                "name": one.name,
                "uid": one.uid,
                "differs": one.differs,
                "outcomes": [whole_data(came) if came else None for came in (one.first, one.second)],
            }
            for one in pods
        ],
    }
    if any(run.fills for run in runs):
        found["filled"] = [[filled_data(one, machine) for one in run.fills] for run in runs]
    if any(run.interrupted for run in runs):
        found["interrupted"] = True
    return found
