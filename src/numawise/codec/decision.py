"""Decisions as plain data: the form of recorded traces, and what users see of a simulation."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from numawise.engine.admit import Admitted, Crashed, Decision, Rejected
from numawise.engine.hint import Family, Hint
from numawise.engine.lifecycle import Started
from numawise.engine.resize import ResizeResult
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
    PodsPreempted,
    RoundBegan,
    Step,
    TooManyCombinations,
)
from numawise.request.model import Amounts, PodRequest
from numawise.results.simulation import NOT_KNOWN, Simulated
from numawise.rules.model import Rules
from numawise.sets import format_ids, ids_of

LISTED = 300
"""Longer hint lists are given by number and digest."""
MOST_NAMED = 12
"""How many devices a sentence names."""

ENUMERABLE = 16
"""Hint lists over more NUMA nodes are too long to be given at all."""

Data = dict[str, Any]


def hint_data(hint: Hint) -> Data:
    """One merged hint."""
    return {"numa": None if hint.numa is None else list(hint.numa), "preferred": hint.preferred}


def family_data(family: Family | None) -> object:
    """The hints of one resource as the kubelet lists them."""
    if family is None:
        return None
    nodes = family.reach.bit_count()
    if nodes > ENUMERABLE:
        return {"count_at_most": 2**nodes - 1, "narrowest": family.narrowest}
    listed = list(family)
    hints = [[list(ids_of(mask)), preferred] for mask, preferred in listed]
    if len(hints) <= LISTED:
        return hints
    text = json.dumps(hints, separators=(",", ":"))
    return {
        "count": len(hints),
        "preferred": sum(preferred for _, preferred in listed),
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
        "first": list(islice(hints, 8)),
    }


def rounds_data(steps: Iterable[Step]) -> list[Data]:
    """The rounds of hints and merges among the steps; a crash leaves the last without a merge."""
    rounds: list[Data] = []
    for step in steps:
        if isinstance(step, RoundBegan):
            asked = {"pod": True} if step.container is None else {"container": step.container}
            rounds.append({**asked, "hints": {}, "merged": None})
        elif isinstance(step, HintsFound):
            rounds[-1]["hints"][step.provider] = (
                None
                if step.hints is None
                else {name: family_data(found) for name, found in step.hints.items()}
            )
        elif isinstance(step, HintsMerged):
            rounds[-1]["merged"] = {**hint_data(step.best), "admit": step.admitted}
    return rounds


def decision_data(decision: Decision, steps: Iterable[Step]) -> Data:
    """Verdict, hints and affinity of one admission."""
    found: Data = {}
    rounds = rounds_data(steps)
    if rounds:
        found["hint_rounds"] = rounds
    if isinstance(decision, Crashed):
        return {**found, "panic": decision.message}
    found["admitted"] = isinstance(decision, Admitted)
    if isinstance(decision, Rejected):
        found |= {"reason": decision.reason, "message": decision.message}
        if decision.by_chance:
            found["message_unspecified"] = True
        if decision.provider:
            found["allocate_failed"] = {
                "container": decision.container,
                "provider": decision.provider,
                "error": decision.error,
            }
    if decision.preempted:
        found["preempted"] = list(decision.preempted)
    if isinstance(decision, Admitted) and decision.affinity:
        found["affinity"] = {name: hint_data(hint) for name, hint in decision.affinity.items()}
    return found


def started_data(started: Iterable[Started]) -> list[Data]:
    """What containers were created with, or pushed to."""
    rows = []
    for one in started:
        row: Data = {"pod": one.uid, "container": one.container}
        if one.error:
            row["start_error"] = one.error
        row["cpuset_cpus"] = format_ids(one.cpus)
        if one.mems is not None:
            row["cpuset_mems"] = ",".join(map(str, ids_of(one.mems)))
        rows.append(row)
    return rows


def state_data(rules: Rules, state: NodeState, checkpoints: Mapping[str, str]) -> Data:
    """Who holds what."""
    cpu: Data = {"default": format_ids(state.cpu.shared)}
    if state.cpu.assignments:
        cpu["assignments"] = {
            uid: {name: format_ids(cpus) for name, cpus in containers.items()}
            for uid, containers in state.cpu.assignments.items()
        }
    if state.cpu.pods:
        cpu["pods"] = {uid: format_ids(cpus) for uid, cpus in state.cpu.pods.items()}
    found: Data = {"cpu": cpu}
    if rules.memory_static:
        found["memory"] = _memory_data(state)
    if state.devices.grants:
        found["devices"] = _devices_data(state)
    if checkpoints:
        found["checkpoints"] = dict(checkpoints)
    return found


def _memory_data(state: NodeState) -> Data:
    memory: Data = {
        "free": {
            str(numa): {kind: table.free for kind, table in node.tables.items()}
            for numa, node in state.memory.numa.items()
        }
    }
    if state.memory.assignments:
        memory["assignments"] = {
            uid: {name: _blocks_data(blocks) for name, blocks in containers.items()}
            for uid, containers in state.memory.assignments.items()
        }
    if state.memory.pods:
        memory["pods"] = {uid: _blocks_data(blocks) for uid, blocks in state.memory.pods.items()}
    return memory


def _blocks_data(blocks: Iterable[Any]) -> list[Data]:
    return [
        {"numa": list(ids_of(block.numa)), "type": block.type, "size": block.size}
        for block in sorted(blocks, key=lambda block: block.type)
    ]


def _devices_data(state: NodeState) -> Data:
    return {
        uid: {
            name: {
                resource: {
                    "ids": sorted(grant.ids),
                    "per_numa": {
                        ("none" if numa < 0 else str(numa)): len(ids) for numa, ids in grant.per_numa
                    },
                }
                for resource, grant in resources.items()
            }
            for name, resources in containers.items()
        }
        for uid, containers in state.devices.grants.items()
    }


# --------------------------------------------------------------------------------------------------
# The outcome of a simulation as plain data, with the names users see in JSON and YAML.


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


def resize_data(result: ResizeResult) -> Data:
    """What became of one resize."""
    row: Data = {"uid": result.uid, "outcome": result.outcome}
    if result.reason:
        row |= {"reason": result.reason, "message": result.message}
    return row


def size_data(before: PodRequest, now: PodRequest) -> Data:
    """What containers are allocated that have another size than before; '': the pod itself."""
    rows: Data = {}
    for old, new in zip(before.containers, now.containers, strict=True):
        sizes = amounts_data(new.requests, new.limits)
        if sizes != amounts_data(old.requests, old.limits):
            rows[new.name] = sizes
    own = amounts_data(now.requests or {}, now.limits or {})
    if own != amounts_data(before.requests or {}, before.limits or {}):
        rows[""] = own
    return rows


def amounts_data(requests: Amounts, limits: Amounts) -> Data:
    """Requests and limits as a manifest has them."""
    return {
        side: {name: str(amount) for name, amount in sizes.items()}
        for side, sizes in (("limits", limits), ("requests", requests))
        if sizes
    }


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
    if one.doubt.verdict:
        return [{"name": each.name, "verdict": NOT_KNOWN, "affinity": None} for each in one.pod.containers]
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


def _several(names: Sequence[str]) -> str:
    """Names in a row; of very many, the first ones."""
    if len(names) <= MOST_NAMED:
        return ", ".join(names)
    return f"{', '.join(names[: MOST_NAMED // 2])}, … ({len(names)} in all)"


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
            case DevicesChosen(open_to=open_to, resource=resource, container=container, tied=tied) if open_to:
                among = _several(open_to)
                detail = f"{resource} of container {container} could be any of {among}"
                if tied:
                    detail = f"{resource} of container {container} could be others of {among}, "
                    detail += "which the plugin prefers as much"
                text = f"The kubelet leaves this choice to chance: {detail}."
                found["device-choice-left-to-chance", text] = None
            case PodsPreempted(open_to=open_to) if open_to:
                detail = f"of the pods {', '.join(open_to)} it may end others first"
                text = f"The kubelet leaves this choice to chance: {detail}."
                found["preemption-left-to-chance", text] = None
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
