"""The outcome of a simulation as plain data, with the names users see in JSON and YAML."""

from collections.abc import Sequence
from itertools import islice
from typing import Any

from numawise.codec.decision import ENUMERABLE, Data, decision_data, hint_data
from numawise.engine.admit import Admitted, Crashed, Decision, Rejected
from numawise.engine.hint import Family
from numawise.engine.lifecycle import Started
from numawise.engine.state import NodeState
from numawise.engine.trace import (
    DEFECTS,
    BufferReused,
    Candidate,
    CpusTaken,
    Defect,
    DevicesChosen,
    HintsFound,
    HintsMerged,
    Step,
    TooManyCombinations,
)
from numawise.request.model import PodRequest
from numawise.results.simulation import Simulated
from numawise.sets import format_ids, ids_of

SHOWN = 12
"""Hints of one resource that a line has room for."""
YEAR = 365 * 86400.0


def pod_data(
    pod: PodRequest, decision: Decision, steps: Sequence[Step], started: Sequence[Started], granted: NodeState
) -> Data:
    """Verdict, grants and reasons of one pod."""
    found: Data = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid, "qos": pod.qos}
    found["verdict"] = verdict(decision)
    if isinstance(decision, Rejected):
        found |= {"reason": decision.reason, "message": decision.message}
    elif isinstance(decision, Crashed):
        found["message"] = decision.message
    merges = [step for step in steps if isinstance(step, HintsMerged)]
    found["containers"] = [
        container_data(pod, container.name, decision, started, granted, merges)
        for container in pod.containers
    ]
    details = decision_data(decision, steps)
    if "allocate_failed" in details:
        found["failed"] = details["allocate_failed"]
    found["rounds"] = details.get("hint_rounds", [])
    for data, merged in zip(found["rounds"], merges, strict=False):
        data["decided_by"] = list(merged.decided_by)
        data["candidates"] = [_candidate_data(one) for one in merged.candidates]
    found["findings"] = [{"code": code, "text": text} for code, text in findings(steps)]
    return found


def verdict(decision: Decision) -> str:
    """One word for a decision."""
    if isinstance(decision, Crashed):
        return "crashed"
    return "admitted" if isinstance(decision, Admitted) else "rejected"


def container_data(
    pod: PodRequest,
    name: str,
    decision: Decision,
    started: Sequence[Started],
    granted: NodeState,
    merges: Sequence[HintsMerged],
) -> Data:
    """What one container received; of a refused pod, the affinity that was judged."""
    row: Data = {"name": name, "verdict": verdict(decision)}
    if not isinstance(decision, Admitted):
        judged = next((merged for merged in merges if merged.container in (None, name)), None)
        row["affinity"] = hint_data(judged.best) if judged else None
        return row
    own = granted.cpu.assignments.get(pod.uid, {}).get(name)
    given = next((one for one in started if one.container == name), None)
    row["cpus"] = format_ids(given.cpus if given else own or 0)
    row["exclusive"] = own is not None
    blocks = granted.memory.assignments.get(pod.uid, {}).get(name, ())
    nodes = 0
    for block in blocks:
        nodes |= block.numa
    row["memory"] = {
        "numa": format_ids(nodes),
        "blocks": [{"numa": format_ids(b.numa), "type": b.type, "size": b.size} for b in blocks],
    }
    grants = granted.devices.grants.get(pod.uid, {}).get(name, {})
    row["devices"] = {resource: sorted(grant.ids) for resource, grant in grants.items()}
    hint = decision.affinity.get(name)
    row["affinity"] = hint_data(hint) if hint else None
    if given and given.error:
        row["start_error"] = given.error
    return row


def container_rows(one: Simulated) -> list[Data]:
    """What each container has, as data."""
    merges = [step for step in one.steps if isinstance(step, HintsMerged)]
    return [
        container_data(one.pod, container.name, one.decision, one.started, one.granted, merges)
        for container in one.pod.containers
    ]


def hint_lines(steps: Sequence[Step]) -> list[str]:
    """The hints of the round that was refused, a line a resource: ``cpu: 1! 0-1`` (``!``: preferred)."""
    refused = next((s for s in steps if isinstance(s, HintsMerged) and not s.admitted), None)
    if refused is None:
        return []
    lines = []
    for step in steps:
        if isinstance(step, HintsFound) and step.container == refused.container:
            for resource, family in (step.hints or {}).items():
                lines.append(f"{resource}: {_hints_text(family)}")
    return lines


def _hints_text(family: Family | None) -> str:
    if family is None:
        return "any NUMA node will do"
    if not family.reach:
        return "no NUMA nodes can serve it"
    if family.reach.bit_count() > ENUMERABLE:
        return f"too many to list, from {family.narrowest} NUMA nodes up"
    shown = [f"{format_ids(mask)}{'!' if liked else ''}" for mask, liked in islice(family, SHOWN + 1)]
    return " ".join(shown[:SHOWN]) + (" …" if len(shown) > SHOWN else "")


def findings(steps: Sequence[Step]) -> list[tuple[str, str]]:
    """What the kubelet does here that nobody would expect: known defects, and choices left to chance."""
    found: dict[tuple[str, str], None] = {}
    for step in steps:
        match step:
            case Defect(name=name, detail=detail):
                found[name, f"{DEFECTS[name]}{f' ({detail})' if detail else ''}"] = None
            case BufferReused(chosen=chosen, used=used):
                detail = f"chosen {','.join(map(str, chosen))}, used {','.join(map(str, used))}"
                found["buffer-reused", f"{DEFECTS['buffer-reused']} ({detail})"] = None
            case CpusTaken(not_free=not_free, unit=unit, name=number) if not_free:
                detail = f"{unit} {number} brought {format_ids(not_free)}"
                found["cpus-not-free", f"{DEFECTS['cpus-not-free']} ({detail})"] = None
            case DevicesChosen(open_to=open_to, resource=resource, container=container) if open_to:
                detail = f"{resource} of container {container} could be any of {', '.join(open_to)}"
                found["device-choice-free", f"The kubelet leaves this choice to chance: {detail}."] = None
            case TooManyCombinations(combinations=count, masks=masks, seconds=seconds):
                found["too-many-combinations", _blow_up(count, masks, seconds)] = None
    return list(found)


def _blow_up(count: int, masks: int, seconds: float) -> str:
    if seconds > YEAR:
        when = "it would never finish"
    elif seconds > 3600:
        when = f"it would need about {seconds / 3600:.0f} hours of CPU time"
    else:
        when = f"it would need about {seconds:.0f} s of CPU time"
    work = f"looks at {masks:.1e} sets of NUMA nodes and compares up to {count:.1e} combinations of hints"
    return f"The kubelet {work} here; {when}."


def _candidate_data(candidate: Candidate) -> dict[str, Any]:
    row: dict[str, Any] = {
        "numa": list(ids_of(candidate.mask)),
        "kept": candidate.kept,
        "preferred": candidate.preferred,
        "why": candidate.why,
    }
    if candidate.resources:
        row["resources"] = list(candidate.resources)
    return row
