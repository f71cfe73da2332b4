"""The same node twice, under two releases or two configurations: what differs for each pod, and why.

Rules kept here:

1. Both releases get the same machine, configuration, state files and pods, in the same order.
2. A change of verdict stands for all that follows from it; otherwise each kind of grant is compared.
3. What no grant depends on (hints alone, the wording of a refusal) is reported, but does not count.
4. Each change names the switches it depends on (``blend``).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from numawise.codec.decision import container_rows, pod_data
from numawise.compare.attribution import Pair, Raw, ReleaseDifference, Search, change_text, json_name
from numawise.engine.admit import Crashed, Rejected
from numawise.engine.state import NodeState
from numawise.machine.description import NodeDescription
from numawise.machine.model import Machine
from numawise.node.node import Files, boot, lasting_containers, simulate
from numawise.node.ruled import Tune
from numawise.quantity import Quantity
from numawise.request.defaults import RawPod, defaulted
from numawise.results.comparison import (
    ADMITTED,
    AFFINITY,
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
from numawise.results.simulation import ScenarioRun, Simulated
from numawise.rules.check import Refusal
from numawise.rules.versions import Version
from numawise.sets import format_ids
from numawise.values import dataclass, field, replace

GRANTS = (CPUS, MEMORY, DEVICES, START_ERROR, AFFINITY)
NOT_REACHED = "not reached"
"""The verdict on a pod after one that crashed the kubelet."""


@dataclass(frozen=True, slots=True)
class Case:
    """What both releases are given."""

    machine: Machine
    files: Mapping[str, str] = field(default_factory=dict)
    """Texts of the state files, by name."""
    pods: tuple[RawPod, ...] = ()
    restart: bool = False
    """Pods that the state files know are running, and are admitted again as after a restart."""
    description: NodeDescription | None = None
    """What the Node object says."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What became of one pod."""

    uid: str
    pod: str
    """Namespace and name."""
    verdict: str
    words: str = ""
    """The kubelet's reason and message when it was not admitted."""
    grants: Mapping[str, object] = field(default_factory=dict)
    """Kind of grant → container → what it got."""
    hints: object = None


@dataclass(frozen=True, slots=True)
class Run:
    """What one release makes of a case."""

    refusal: Refusal | None = None
    """It does not start."""
    reserved: str = ""
    forgotten: str = ""
    """Why the device file was passed over."""
    pods: tuple[Facts, ...] = ()


def compare(case: Case, pair: Pair, *, explain: bool = True) -> tuple[ReleaseChange, ...]:
    """What changes from the older release to the newer one."""
    before, after = run(case, pair.old_config, pair.old), run(case, pair.new_config, pair.new)
    search: Search[Run] = Search(pair, lambda blend: run(case, pair.new_config, pair.new, blend))
    found = []
    for change in differences(before, after):
        reasons = _reasons(search, change, before) if explain else ()
        found.append(replace(change, reasons=reasons))
    return tuple(found)


def _reasons(search: Search[Run], change: ReleaseChange, before: Run) -> tuple[Reason, ...]:
    expected = _fact(before, change)
    switches = search.explain(lambda outcome: _fact(outcome, change) == expected)
    return tuple(reason_of(switch, search.pair) for switch in switches)


def reason_of(switch: ReleaseDifference, pair: Pair) -> Reason:
    """A switch as a reason."""
    if switch.kind == "behaviour":
        return Reason(switch.name, change_text(switch, pair))
    name = json_name(switch.name) if switch.kind == "field" else switch.name
    return Reason(f"{switch.kind} {name}", change_text(switch, pair))


def _fact(outcome: Run, change: ReleaseChange) -> object:
    """The part of an outcome that a change is about."""
    if not change.uid:
        return (outcome.refusal is None, outcome.reserved if change.kind == RESERVED else outcome.forgotten)
    facts = next((one for one in outcome.pods if one.uid == change.uid), None)
    if facts is None:
        return None
    if change.kind in (REFUSED, ADMITTED, CRASHED):
        return facts.verdict
    if change.kind == WORDS:
        return facts.words
    return facts.hints if change.kind == HINTS else facts.grants.get(change.kind)


def run(case: Case, kubelet: Raw, version: Version, tune: Tune | None = None) -> Run:
    """Start one release on the case, and give it the pods."""
    files = Files(texts=dict(case.files))
    raw = {pod.uid: pod for pod in case.pods}
    before = _running(case) if case.restart else None
    node = boot(case.machine, kubelet, files, before, version=version, tune=tune)
    if isinstance(node, Refusal):
        return Run(refusal=node)
    node.write_files = False
    node.plugins_registered(case.machine.plugins)
    node.describe(case.description)
    running = tuple(before.active) if before else ()
    if before is not None:  # pods that only the files know are running, too
        unknown = dict.fromkeys(sorted(node.state.departed))
        node.state = replace(node.state, active={**unknown, **before.active}, departed=frozenset())
    outcomes = simulate(node, [node.requested(raw[uid]) for uid in running], start=False)
    if not any(isinstance(one.decision, Crashed) for one in outcomes):
        node.sources_ready()
        new = [node.requested(pod) for uid, pod in raw.items() if uid not in running]
        outcomes += simulate(node, new)
    return Run(
        reserved=format_ids(node.rules.reserved_cpus),
        forgotten=files.forgotten,
        pods=tuple(_facts(case.pods, outcomes)),
    )


def _running(case: Case) -> NodeState:
    """The state of a kubelet that went down while its pods ran on, as far as files and manifests say."""
    recorded = "".join(case.files.values())
    known = {pod.uid: defaulted(pod.as_allocated) for pod in case.pods if f'"{pod.uid}"' in recorded}
    return NodeState(active=dict(known), running=lasting_containers(known.values()))


def _facts(pods: Sequence[RawPod], outcomes: Iterable[Simulated]) -> Iterable[Facts]:
    reached = {one.pod.uid: one for one in outcomes}
    for pod in pods:
        name = f"{pod.namespace}/{pod.name}"
        one = reached.get(pod.uid)
        yield Facts(pod.uid, name, NOT_REACHED) if one is None else _fact_of(pod.uid, name, one)


def _fact_of(uid: str, name: str, one: Simulated) -> Facts:
    row = pod_data(one.pod, one.decision, one.steps, one.started, one.granted)
    words = f"{row.get('reason', '')}: {row.get('message', '')}".strip(": ")
    hints = [
        ({name: found for name, found in turn["hints"].items() if found is not None}, turn["merged"])
        for turn in row["rounds"]
    ]
    return Facts(uid, name, row["verdict"], words, _grants(one, row["containers"]), hints)


def _grants(one: Simulated, rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, object]]:
    """Kind → container → what it got; CPUs count when they are its own."""
    found: dict[str, dict[str, object]] = {kind: {} for kind in GRANTS}
    own = one.granted.cpu.assignments.get(one.pod.uid, {})
    for row in rows:
        if row["verdict"] != "admitted":
            continue
        name = row["name"]
        blocks = (f"{b['type']} {Quantity.of(b['size'])} on {b['numa']}" for b in row["memory"]["blocks"])
        values: dict[str, object] = {
            CPUS: format_ids(own.get(name, 0)),
            MEMORY: ", ".join(blocks),
            DEVICES: row["devices"],
            START_ERROR: row.get("start_error"),
            AFFINITY: row["affinity"],
        }
        for kind, value in values.items():
            if value:
                found[kind][name] = value
    return found


def differences(before: Run, after: Run) -> Iterable[ReleaseChange]:
    """What is otherwise, without the reasons."""
    if before.refusal or after.refusal:
        if not before.refusal and after.refusal:
            yield ReleaseChange(STOPPED, "starts", _refusal_text(after.refusal))
        elif before.refusal and not after.refusal:
            yield ReleaseChange(STARTED, _refusal_text(before.refusal), "starts")
        elif before.refusal != after.refusal and before.refusal and after.refusal:
            yield ReleaseChange(WORDS, _refusal_text(before.refusal), _refusal_text(after.refusal))
        return
    if before.reserved != after.reserved:
        yield ReleaseChange(RESERVED, before.reserved, after.reserved)
    if before.forgotten != after.forgotten:
        yield ReleaseChange(FORGOTTEN, before.forgotten or "read", after.forgotten or "read")
    for old, new in zip(before.pods, after.pods, strict=True):
        yield from _pod_differences(old, new)


def _pod_differences(old: Facts, new: Facts) -> Iterable[ReleaseChange]:
    if old.verdict != new.verdict:
        kind = {"admitted": ADMITTED, "rejected": REFUSED}.get(new.verdict, CRASHED)
        yield ReleaseChange(kind, _verdict_text(old), _verdict_text(new), old.pod, old.uid)
        return
    quiet = True
    for kind in GRANTS:
        one, other = old.grants.get(kind), new.grants.get(kind)
        if one != other and (quiet or kind != AFFINITY):  # another grant implies another affinity
            quiet = False
            yield ReleaseChange(kind, _grant_text(one), _grant_text(other), old.pod, old.uid)
    if old.words != new.words:
        quiet = False
        yield ReleaseChange(WORDS, old.words, new.words, old.pod, old.uid)
    if quiet and old.hints != new.hints:
        yield ReleaseChange(HINTS, "", "", old.pod, old.uid)


def _refusal_text(refusal: Refusal) -> str:
    return f"does not start ({refusal.stage}): {refusal.message}"


def _verdict_text(facts: Facts) -> str:
    return f"{facts.verdict} ({facts.words})" if facts.words else facts.verdict


def _grant_text(grants: object) -> str:
    """``app 2-4, helper 5``."""
    if not isinstance(grants, Mapping) or not grants:
        return "none"
    return "; ".join(f"{container} {_value_text(value)}" for container, value in grants.items())


def _value_text(value: object) -> str:
    if not isinstance(value, Mapping):
        return str(value)
    if "preferred" in value:
        numa = "any" if value["numa"] is None else ",".join(map(str, value["numa"]))
        return f"{numa} {'preferred' if value['preferred'] else 'not preferred'}"
    return " ".join(f"{name}={','.join(ids)}" for name, ids in sorted(value.items()))


# --------------------------------------------------------------------------------------------------
# The same scenario under two configurations, side by side.
#
# 1. Both get the same machine, state files, release and steps.
# 2. Two outcomes of a pod differ when its verdict or anything a container has of its own is otherwise;
#    the way it was decided (hints, affinity) and the CPUs of the shared pool do not count.


def compare_runs(first: ScenarioRun, second: ScenarioRun, names: tuple[str, str]) -> ConfigComparison:
    """Every pod with both outcomes, in the order they came."""
    ours = {pod.pod.uid: pod for pod in first.pods}
    theirs = {pod.pod.uid: pod for pod in second.pods}
    pairs = []
    for uid in dict.fromkeys((*ours, *theirs)):
        one, other = ours.get(uid), theirs.get(uid)
        known = one or other
        assert known is not None
        pairs.append(PodPair(uid, known.pod.name, one, other, differs=_outcome(one) != _outcome(other)))
    return ConfigComparison(names, (first, second), tuple(pairs))


def outcome_changes(first: Simulated, second: Simulated) -> tuple[ReleaseChange, ...]:
    """What is otherwise for a pod that came to both, kind by kind."""
    one, other = (
        _fact_of(pod.pod.uid, f"{pod.pod.namespace}/{pod.pod.name}", pod) for pod in (first, second)
    )
    return tuple(_pod_differences(one, other))


def _outcome(pod: Simulated | None) -> object:
    """What counts of an outcome (rule 2)."""
    if pod is None:
        return None
    decision = pod.decision
    if isinstance(decision, Rejected):
        return (decision.reason, decision.message)
    if isinstance(decision, Crashed):
        return decision.message
    return [
        (row["cpus"] if row["exclusive"] else "", row["memory"], row["devices"], row.get("start_error"))
        for row in container_rows(pod)
    ]
