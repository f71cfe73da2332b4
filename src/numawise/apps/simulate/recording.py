"""A scenario as a trace: the file that ``numawise replay`` reads, and that recordings of kubelets are.

Rules kept here:

1. A trace begins with an idle node, and has no words for some steps: containers that start later, a changed
   Node object, state files that are deleted.  A scenario with one of these is refused, and the step is named.
2. Pods are written one by one as they came, copies of a fill included; names and patterns are resolved to
   uids, changes of devices to the list that the plugin then sends, sizes to requests and limits.
3. A trace is handed out only when its replay decides as the scenario did, step by step.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from numawise.apps.simulate.playing import Moment, Played
from numawise.apps.simulate.scenario import restart_config
from numawise.codec.decision import amounts_data, decision_data
from numawise.codec.machine import device_list, encode_machine
from numawise.codec.pod_manifest import pod_manifest
from numawise.codec.steps import LATE, Timed
from numawise.errors import InputError
from numawise.machine.description import NodeDescription
from numawise.node.replay import replay
from numawise.request.defaults import RawPod
from numawise.request.resize import ResizeRequest, spelt_out
from numawise.results.simulation import (
    Add,
    Describe,
    Devices,
    Fill,
    Reconcile,
    Remove,
    ResizeStep,
    Restart,
    Retry,
    Simulated,
    StartStep,
    StepResult,
)
from numawise.rules.versions import shown
from numawise.values import replace

Trace = dict[str, Any]
DECIDED = ("admitted", "reason", "message", "affinity", "panic")
CPU = "cpu"
IDLE = "begin with a machine on which nothing runs"


def trace_of(played: Played, kubelet: Mapping[str, object], name: str) -> Trace:
    """The scenario of a trace; ``kubelet``: the configuration as it was written, ``name``: the trace's id."""
    first = played.moments[0]
    if first.node.state.active or first.node.state.departed:
        raise InputError("a trace begins with an idle node, and pods run on this one", advice=IDLE)
    described = first.node.description
    trace: Trace = {
        "id": name,
        "kubernetes": f"v{shown(first.node.version)}.0",
        "machine": encode_machine(first.node.machine),
        "kubelet": dict(kubelet),
        "admission": "all",
        "steps": [],
    }
    if described is not None:
        trace["node"] = _node(described)
    expected: list[Simulated] = []
    for before, moment in zip(played.moments, played.moments[1:], strict=False):
        for result in moment.results:
            trace["steps"] += _steps(before, moment, result, placed=described is not None)
            expected += _decisions(result)
    _check(trace, expected)
    return trace


def _node(described: NodeDescription) -> Trace:
    return {
        "labels": dict(described.labels),
        "taints": [{"key": one.key, "effect": one.effect, "value": one.value} for one in described.taints],
        "unschedulable": described.unschedulable,
        "conditions": list(described.pressures),
        "allocatable": {
            name: f"{size}m" if name == CPU else str(size) for name, size in described.allocatable.items()
        },
    }


def _steps(before: Moment, moment: Moment, result: StepResult, *, placed: bool) -> Iterator[Trace]:
    """The steps of a trace that one act is (rule 2)."""
    act = result.step.act
    if isinstance(act, Add):
        if not act.start:
            raise _wordless(result, "its containers start at a later step")
        for raw, _ in zip(act.pods, result.pods, strict=False):
            yield _add(raw, placed=placed)
    elif isinstance(act, Fill):
        for copy in result.filled.copies if result.filled is not None else ():
            raw = replace(act.pod, name=copy.pod.name, uid=copy.pod.uid)
            yield _add(raw, placed=placed)
    elif isinstance(act, Remove):
        yield from ({"remove": uid} for uid in result.uids)
    elif isinstance(act, Restart):
        if act.delete:
            raise _wordless(result, "state files are deleted")
        given: Trace = {"plugins": LATE} if act.late else {}
        if act.text:
            given["kubelet"] = dict(restart_config(result.step, act).raw(before.node.version))
        yield {"restart": given}
    elif isinstance(act, Devices):
        yield {"devices": {act.resource: device_list(moment.stage.plugins[act.resource].devices)}}
    elif isinstance(act, ResizeStep):
        for uid in result.uids:
            yield {"resize": _resize(before, uid, act.change)}
    elif isinstance(act, Reconcile | Retry):
        yield {result.step.word: {}}
    elif isinstance(act, StartStep):
        raise _wordless(result, "containers start apart from their pod's admission")
    elif isinstance(act, Describe):
        raise _wordless(result, "the Node object changes")


def _add(raw: RawPod, *, placed: bool) -> Trace:
    return {"add": pod_manifest(raw, placed=placed)}


def _resize(before: Moment, uid: str, change: ResizeRequest) -> Trace:
    pod = before.node.desired(uid)
    settled = spelt_out(pod, change) if pod is not None else change
    found: Trace = {
        "uid": uid,
        "containers": {
            name: amounts_data(size.requests, size.limits) for name, size in settled.containers.items()
        },
    }
    own = settled.pod
    return found | ({} if own is None else {"resources": amounts_data(own.requests, own.limits)})


def _wordless(result: StepResult, what: str) -> InputError:
    step = result.step
    message, advice = f"cannot be told in a trace: {what}", "leave the step out"
    if isinstance(step, Timed) and step.part is not None:
        return step.part.error(message, advice)
    return InputError(f"step {step.number} {message}", advice=advice)


# --- does its replay agree? (rule 3) --------------------------------------------------------------


def _decisions(result: StepResult) -> list[Simulated]:
    copies = result.filled.copies if result.filled is not None else []
    again = result.again if isinstance(result.step.act, Restart) else []
    return [*result.pods, *copies, *again]


def _check(trace: Trace, expected: list[Simulated]) -> None:
    result = replay(trace)
    rows = [
        row
        for step in result.get("steps", ())
        for row in ([step] if step["op"] == "add" else step.get("readmitted", ()))
    ]
    for one, row in zip(expected, rows, strict=False):
        told = decision_data(one.decision, one.steps)
        if row["uid"] != one.pod.uid or any(told.get(key) != row.get(key) for key in DECIDED):
            what = f"{one.pod.namespace}/{one.pod.name} is decided otherwise when the trace is replayed"
            raise InputError(what, advice="a trace cannot say all that decided here")
    if len(rows) != len(expected):
        raise InputError("its replay has another number of decisions", advice="leave out the last steps")
