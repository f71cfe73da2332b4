"""Comparisons of releases and upgrade reports in words: rows of a table, lines of text, plain data."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from numawise.compare.releases import (
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
    Change,
    Reason,
)
from numawise.compare.upgrade import Report, UpgradeEffect
from numawise.results.plain import API_VERSION
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


def change_rows(changes: Iterable[Change]) -> list[list[str]]:
    """One row a change; hints without consequence have none."""
    return [
        [one.pod.removeprefix("default/") or KUBELET, KINDS.get(one.kind, one.kind), one.before, one.after]
        for one in changes
        if one.kind != HINTS
    ]


def change_notes(changes: Sequence[Change]) -> list[str]:
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


def summary(changes: Sequence[Change], pods: int, old: Version, new: Version) -> str:
    """``2 of 5 pods change from 1.34 to 1.36 (1 refused, 1 other CPUs)``."""
    counted = [one for one in changes if not one.minor]
    changed = {one.uid for one in counted if one.uid}
    kinds = Counter(KINDS.get(one.kind, one.kind) for one in counted)
    told = f" ({', '.join(f'{count} {kind}' for kind, count in kinds.items())})" if kinds else ""
    where = f"from {shown(old)} to {shown(new)}"
    if not counted:
        return f"nothing changes for {pods} pods {where}"
    return f"{len(changed)} of {pods} pods change {where}{told}"


def finding_lines(findings: Iterable[UpgradeEffect]) -> list[str]:
    """One line a finding, what stops the kubelet first."""
    lines = []
    for one in sorted(findings, key=lambda finding: not finding.stops):
        mark = "stops the kubelet: " if one.stops else ""
        lines.append(f"{mark}{one.name} {one.text}")
        lines += [f"    {line}" for line in _reason_lines(one.reasons)]
    return lines


def report_lines(report: Report) -> list[str]:
    """An upgrade report as text."""
    lines = finding_lines(report.findings)
    for change, row in zip(
        (one for one in report.changes if one.kind != HINTS), change_rows(report.changes), strict=True
    ):
        pod, what, before, after = row
        lines.append(f"{pod}: {what}: {before} → {after}")
        lines += [f"    {line}" for line in _reason_lines(change.reasons)]
    quiet = [note for note in change_notes(report.changes) if note.startswith("other hints")]
    return [*lines, *quiet, summary(report.changes, report.pods, report.old, report.new)]


def change_data(change: Change) -> dict[str, Any]:
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
    changes: Sequence[Change], pods: int, old: Version, new: Version, remarks: Sequence[str] = ()
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


def report_data(report: Report, remarks: Sequence[str] = ()) -> dict[str, Any]:
    """An upgrade report as plain data."""
    findings = [
        {
            "kind": one.kind,
            "name": one.name,
            "text": one.text,
            "stops": one.stops,
            "reasons": [{"name": reason.name, "text": reason.text} for reason in one.reasons],
        }
        for one in report.findings
    ]
    compared = comparison_data(report.changes, report.pods, report.old, report.new, remarks)
    return {**compared, "kind": "Upgrade", "matters": report.matters, "findings": findings}
