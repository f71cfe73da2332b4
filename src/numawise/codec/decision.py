"""Decisions, steps and states as plain data: the form of recorded kubelet traces."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from numawise.engine.admit import Admitted, Crashed, Decision, Rejected
from numawise.engine.hint import Family, Hint
from numawise.engine.lifecycle import Started
from numawise.engine.state import NodeState
from numawise.engine.trace import HintsFound, HintsMerged, RoundBegan, Step
from numawise.rules.model import Rules
from numawise.sets import format_ids, ids_of

LISTED = 300
"""Longer hint lists are given by number and digest."""

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
    elif decision.affinity:
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
