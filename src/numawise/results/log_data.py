"""What a kubelet's log says, as plain data: the names users see in JSON."""

from datetime import datetime

from numawise.engine.hint import Family, Hint
from numawise.results.explanation import explanation_data, suggestion_data
from numawise.results.log import (
    KIND,
    YEARLESS,
    Data,
    ExplainedAdmission,
    ExplainedStart,
    Kubelet,
    LoggedRound,
    LogReport,
)
from numawise.results.plain import API_VERSION
from numawise.sets import ids_of


def report_data(report: LogReport) -> Data:
    """All of it, with the names users see in JSON."""
    reading = report.reading
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "read": {
            "files": list(reading.files),
            "bytes": reading.size,
            "lines": reading.lines,
            "kubeletLines": reading.known,
            "skippedLines": reading.skipped,
            "cutLines": reading.cut,
            "first": _stamp(reading.first),
            "last": _stamp(reading.last),
            "events": dict(sorted(reading.counts.items())),
        },
        "admitted": report.admitted,
        "rejected": report.rejected,
        "unfinished": report.unfinished,
        "leftOut": report.left_out,
        "early": report.early,
        "resizesRefused": report.resizes,
        "starts": [_start_data(one) for one in report.starts],
        "startsLeftOut": report.starts_left_out,
        "kubelets": [_kubelet_data(one) for one in report.kubelets],
        "pods": [_finding_data(one) for one in report.findings],
    }


def _stamp(time: datetime | None) -> str | None:
    """RFC 3339 without a zone; without a year where none is known."""
    if time is None:
        return None
    text = time.isoformat(timespec="microseconds")
    return text.removeprefix(f"{YEARLESS}-") if time.year == YEARLESS else text


def _start_data(one: ExplainedStart) -> Data:
    failure = one.failure
    return {
        "host": failure.origin.host,
        "pid": failure.origin.pid,
        "stage": failure.stage,
        "message": failure.message,
        "code": failure.code,
        "answer": one.explanation.answer,
        "remarks": list(one.explanation.remarks),
        **(
            {"suggestions": [suggestion_data(each) for each in one.explanation.suggestions]}
            if one.explanation.searched
            else {}
        ),
        "times": failure.count,
        "first": _stamp(failure.first),
        "last": _stamp(failure.last),
        "seconds": failure.seconds,
        "lines": [failure.first_line, failure.last_line],
        "startedLater": failure.started_later,
    }


def _kubelet_data(one: Kubelet) -> Data:
    return {
        "host": one.origin.host,
        "pid": one.origin.pid,
        "boot": one.origin.boot,
        "policy": one.policy,
        "policies": list(one.policies),
        "policyStated": one.policy_stated,
        "scope": one.scope,
        "release": one.release,
        "releases": one.releases_text,
        "numa": list(ids_of(one.numas)),
    }


def _finding_data(one: ExplainedAdmission) -> Data:
    admission, repeats = one.admission, one.repeats
    found = explanation_data(one.explanation)
    found["log"] = {
        "host": admission.origin.host,
        "pid": admission.origin.pid,
        "boot": admission.origin.boot,
        "time": _stamp(admission.start),
        "lines": [admission.first_line, admission.last_line],
        "verdict": admission.verdict,
        "stated": admission.stated,
        "likely": admission.likely,
        "resize": admission.resize,
        "reason": admission.reason,
        "message": admission.message,
        "rounds": [_round_data(each) for each in admission.rounds],
        "errors": [
            {"manager": each.provider, "container": each.container, "error": each.error}
            for each in admission.troubles
        ],
        "cpus": dict(admission.cpus),
        "devices": dict(admission.devices),
        "asked": dict(admission.wanted),
    }
    found["repeats"] = {
        "owner": repeats.owner,
        "ownerKind": repeats.kind,
        "times": repeats.count,
        "recreated": repeats.recreated,
        "first": _stamp(repeats.first),
        "last": _stamp(repeats.last),
        "seconds": repeats.seconds,
        "pods": list(repeats.pods),
        "names": repeats.names,
        "changes": repeats.changes,
    }
    return found


def _round_data(one: LoggedRound) -> Data:
    return {
        **({"pod": True} if one.container is None else {"container": one.container}),
        "hints": {name: _family_data(family) for name, family in one.hints.items()},
        "best": None if one.best is None else _hint_data(one.best),
        "accepted": one.placed,
        "complete": not one.cut,
    }


def _family_data(family: Family | None) -> list[Data] | None:
    if family is None:
        return None
    return [{"numa": list(ids_of(mask)), "preferred": liked} for mask, liked in family]


def _hint_data(hint: Hint) -> Data:
    return {"numa": None if hint.numa is None else list(hint.numa), "preferred": hint.preferred}
