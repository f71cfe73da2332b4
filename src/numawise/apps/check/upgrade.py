"""What an upgrade of the kubelet would do to the node that is checked."""

from collections.abc import Iterator, Sequence

from numawise.apps.check.context import Context
from numawise.codec.checkpoint import DEVICE_FILE
from numawise.compare.upgrade import (
    FIELD_UNKNOWN,
    GATE_DEFAULT,
    GATE_LOCKED,
    GATE_NEEDS,
    GATE_UNKNOWN,
    RESTART,
    STATE_FILE,
    upgrade,
)
from numawise.inputs.pods import PodSource
from numawise.results.comparison import STOPPED, ReleaseChange, UpgradeEffect
from numawise.results.finding import Finding, Place, found
from numawise.rules.versions import Version, shown

GATES = (GATE_UNKNOWN, GATE_LOCKED, GATE_NEEDS)


def upgrade_findings(
    context: Context, pods: Sequence[PodSource], old: Version, new: Version
) -> Iterator[Finding]:
    """What changes between two releases; pods are only tried on a machine that was given."""
    tried = [pod for pod in pods if pod.raw is not None] if context.known else []
    raws = tuple(pod.raw for pod in tried if pod.raw is not None)
    report = upgrade(context.configuration.raw, context.machine, context.files, raws, old, new)
    way = f"{shown(old)} to {shown(new)}"
    for told in report.findings:
        if told.kind != FIELD_UNKNOWN:
            yield _told(context, told, way)
    stops = any(told.stops for told in report.findings)
    for change in report.changes:
        if change.kind == STOPPED:
            if not stops:
                message = f"{way}: {change.after}"
                yield found("NW601", context.configuration.place(), message, stage="upgrade")
        else:
            yield _changed(context, tried, change, way)


def _told(context: Context, told: UpgradeEffect, way: str) -> Finding:
    place = context.configuration.place
    message = f"{way}: {told.name} {told.text}"
    if told.kind == STATE_FILE:
        where = Place(context.paths.get(told.name, told.name), 1)
        return found("NW603" if told.name != DEVICE_FILE else "NW602", where, message)
    if told.kind == RESTART:
        return found("NW605", place(), message)
    if told.stops:
        return found("NW601", place("featureGates", told.name), message, stage="upgrade")
    if told.kind in (*GATES, GATE_DEFAULT):
        return found("NW602", place("featureGates", told.name), message)
    return found("NW602", place(told.name.split(".")[0].split("[")[0]), message)


def _changed(context: Context, pods: Sequence[PodSource], change: ReleaseChange, way: str) -> Finding:
    """A pod that fares otherwise, or a kubelet that does."""
    why = "; ".join(reason.text for reason in change.reasons)
    who = f"{change.pod}: " if change.pod else ""
    message = f"{way}: {who}{change.kind}: {change.before} before, {change.after} after"
    source = next((pod for pod in pods if pod.raw is not None and pod.raw.uid == change.uid), None)
    place = source.place(source.spec) if source is not None else context.configuration.place()
    code = "NW606" if change.minor else "NW604" if change.pod else "NW602"
    return found(code, place, message, why=why)
