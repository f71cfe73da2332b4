"""Comparisons of two releases or two configurations in words: rows of a table, notes, plain data."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from numawise.render.simulation import (
    COLUMNS,
    Row,
    alignment_notes,
    filled_data,
    pod_notes,
    pod_rows,
    whole_data,
)
from numawise.render.terminal import DIM, YELLOW
from numawise.results.comparison import (
    ADMITTED,
    CPUS,
    CRASHED,
    DEVICES,
    FORGOTTEN,
    HINTS,
    MEMORY,
    REFUSED,
    RESERVED,
    START_ERROR,
    STARTED,
    STOPPED,
    WORDS,
    ConfigComparison,
    PodPair,
    Reason,
    ReleaseChange,
)
from numawise.results.plain import API_VERSION
from numawise.results.simulation import Simulated
from numawise.rules.versions import Version, shown

KINDS = {
    REFUSED: "refused",
    ADMITTED: "admitted",
    CRASHED: "crashes the kubelet",
    CPUS: "other CPUs",
    MEMORY: "other memory",
    DEVICES: "other devices",
    START_ERROR: "other start",
    RESERVED: "other reserved CPUs",
    STOPPED: "does not start",
    STARTED: "starts again",
    FORGOTTEN: "device file",
    WORDS: "other words",
}
KUBELET = "(kubelet)"


def change_columns(old: Version, new: Version) -> tuple[str, ...]:
    """Head of the table of changes."""
    return ("POD", "CHANGE", shown(old), shown(new))


def change_rows(changes: Iterable[ReleaseChange]) -> list[list[str]]:
    """One row a change; hints without consequence have none."""
    return [
        [one.pod.removeprefix("default/") or KUBELET, KINDS.get(one.kind, one.kind), one.before, one.after]
        for one in changes
        if one.kind != HINTS
    ]


def change_text(change: ReleaseChange) -> str:
    """One change of a pod in one line: ``other CPUs: main 8-11 instead of main 2-5``."""
    what = KINDS.get(change.kind, change.kind)
    if change.kind in (REFUSED, ADMITTED, CRASHED):
        return f"{change.after} instead of {change.before}"
    return f"{what}: {change.after or 'none'} instead of {change.before or 'none'}"


def change_notes(changes: Sequence[ReleaseChange]) -> list[str]:
    """Why each changed, and which have other hints without consequence."""
    notes = []
    for one in changes:
        if one.kind == HINTS:
            continue
        name = one.pod.removeprefix("default/") or KUBELET
        what = KINDS.get(one.kind, one.kind)
        notes += [f"{name}: {what}, because of {line}" for line in _reason_lines(one.reasons)]
    quiet = [one.pod.removeprefix("default/") for one in changes if one.kind == HINTS]
    if quiet:
        notes.append(f"other hints, but no other grant: {', '.join(quiet)}")
    return list(dict.fromkeys(notes))


def _reason_lines(reasons: Iterable[Reason]) -> Iterator[str]:
    return (f"{reason.name}: {reason.text}" for reason in reasons)


def summary(changes: Sequence[ReleaseChange], pods: int, old: Version, new: Version) -> str:
    """``2 of 5 pods change from 1.34 to 1.36 (1 refused, 1 other CPUs)``."""
    counted = [one for one in changes if not one.minor]
    changed = {one.uid for one in counted if one.uid}
    kinds = Counter(KINDS.get(one.kind, one.kind) for one in counted)
    told = f" ({', '.join(f'{count} {kind}' for kind, count in kinds.items())})" if kinds else ""
    where = f"from {shown(old)} to {shown(new)}"
    if not counted:
        return f"nothing changes for {pods} pods {where}"
    return f"{len(changed)} of {pods} pods change {where}{told}"


def change_data(change: ReleaseChange) -> dict[str, Any]:
    """One change as plain data."""
    found: dict[str, Any] = {"kind": change.kind, "minor": change.minor}
    if change.uid:
        found |= {"pod": change.pod, "uid": change.uid}
    return found | {
        "before": change.before,
        "after": change.after,
        "reasons": [{"name": reason.name, "text": reason.text} for reason in change.reasons],
    }


def comparison_data(
    changes: Sequence[ReleaseChange], pods: int, old: Version, new: Version, remarks: Sequence[str] = ()
) -> dict[str, Any]:
    """A comparison of two releases as plain data."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Comparison",
        "from": shown(old),
        "to": shown(new),
        "remarks": list(remarks),
        "pods": pods,
        "changes": [change_data(one) for one in changes],
    }


# --- two configurations -----------------------------------------------------------------------

BOTH, MARK, NOT_REACHED = "both", "*", "not reached"
CONFIG_COLUMNS = ("", COLUMNS[0], COLUMNS[1], "UNDER", *COLUMNS[2:])


def config_rows(comparison: ConfigComparison) -> list[Row]:
    """One row for what is the same, two marked ones for what is not."""
    rows: list[Row] = []
    for pod in comparison.pods:
        if not pod.differs and pod.first is not None:
            rows += [["", *row[:2], (BOTH, DIM), *row[2:]] for row in pod_rows(pod.first)]
            continue
        for outcome, name in _outcomes(pod, comparison):
            if outcome is None:
                rows.append([(MARK, YELLOW), pod.name, "-", name, NOT_REACHED, *["-"] * 5])
            else:
                rows += [[(MARK, YELLOW), *row[:2], name, *row[2:]] for row in pod_rows(outcome)]
    return rows


def _outcomes(pod: PodPair, comparison: ConfigComparison) -> Iterator[tuple[Simulated | None, str]]:
    return zip((pod.first, pod.second), comparison.names, strict=True)


def config_notes(comparison: ConfigComparison) -> list[str]:
    """Of pods that differ: why they were refused, and what of them is not aligned."""
    notes = []
    known = {uid: name for run in comparison.runs for uid, name in run.names.items()}
    for pod in comparison.pods:
        for outcome, name in _outcomes(pod, comparison):
            if outcome is not None and pod.differs:
                lines = pod_notes(outcome, known)
                notes += [line if line.startswith(" ") else f"{name}: {line}" for line in lines]
    differing = [pod for pod in comparison.pods if pod.differs]
    for number, name in enumerate(comparison.names):
        outcomes = [(pod.first, pod.second)[number] for pod in differing]
        notes += [f"{name}: {line}" for line in alignment_notes(filter(None, outcomes))]
    return notes


def config_summary(comparison: ConfigComparison) -> str:
    """``2 of 6 pods differ: kubelet.yaml admits 4, other.yaml 6``."""
    (first, second), names, count = comparison.runs, comparison.names, comparison.differing
    admits = f"{names[0]} admits {first.admitted} of {first.total}, {names[1]} {second.admitted}"
    if not count:
        return f"no pod differs: {admits}"
    return f"{count} of {len(comparison.pods)} pods {'differs' if count == 1 else 'differ'}: {admits}"


def config_comparison_data(comparison: ConfigComparison) -> dict[str, Any]:
    """Both as plain data."""
    runs = comparison.runs
    data: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": "ConfigComparison",
        "kubernetes": shown(runs[0].version),
        "configs": list(comparison.names),
        "admitted": [run.admitted for run in runs],
        "rejected": [run.total - run.admitted for run in runs],
        "lost": [run.lost for run in runs],
        "differing": comparison.differing,
        "pods": [
            {
                "name": pod.name,
                "uid": pod.uid,
                "differs": pod.differs,
                "outcomes": [whole_data(outcome) if outcome else None for outcome in (pod.first, pod.second)],
            }
            for pod in comparison.pods
        ],
    }
    if any(run.fills for run in runs):
        data["filled"] = [[filled_data(filled) for filled in run.fills] for run in runs]
    if any(run.interrupted for run in runs):
        data["interrupted"] = True
    return data
