"""A simulation of one node in words: rows of a table, notes below it, and the same as plain data."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from numawise.codec.decision import container_rows, findings, hint_lines, pod_data
from numawise.codec.steps import duration_text
from numawise.engine.admit import Admitted, Crashed, Rejected
from numawise.render.alignment import alignment_text, alignment_verdict, noteworthy
from numawise.render.demands import not_judged_text, preempted_text, unmet_text
from numawise.render.resize import VERDICTS, resize_notes, resized_data, verdict_of
from numawise.render.terminal import DIM, GREEN, RED, YELLOW
from numawise.render.words import counted
from numawise.results.plain import API_VERSION, plain
from numawise.results.simulation import (
    LIMIT,
    NOT_KNOWN,
    REJECTED,
    START_ERROR,
    SUMS,
    Describe,
    Devices,
    Fill,
    Filled,
    ResizeStep,
    Restart,
    Retry,
    ScenarioRun,
    Simulated,
    StartStep,
    StepResult,
)
from numawise.rules.versions import shown
from numawise.sets import format_ids, ids_of

COLUMNS = ("POD", "CONTAINER", "VERDICT", "CPUS", "MEMORY", "DEVICES", "AFFINITY", "PREFERRED")
STYLES = {"admitted": GREEN, "rejected": RED, "crashed": RED, NOT_KNOWN: YELLOW}
KUBELET, NODE_OBJECT = "(kubelet)", "(node)"
MOST_NAMED = 4
Cell = tuple[str, str] | str
Row = list[Cell]
Data = dict[str, Any]


# --- the table ------------------------------------------------------------------------------


def table_columns(run: ScenarioRun, *, steps: bool) -> tuple[str, ...]:
    """Head of the table; ``steps``: with the number of the step, and its time where there are times."""
    if not steps:
        return COLUMNS
    return ("STEP", "TIME", *COLUMNS) if _timed(run) else ("STEP", *COLUMNS)


def table_rows(run: ScenarioRun, *, steps: bool) -> list[Row]:
    """A row for each container and each other event."""
    timed = _timed(run)
    rows: list[Row] = []
    for one in run.results:
        head: Row = []
        if steps:
            head = [str(one.step.number)]
            if timed:
                head.append("-" if one.step.at is None else duration_text(one.step.at))
        rows += [[*head, *row] for row in _step_rows(one, run)]
    return rows


def _timed(run: ScenarioRun) -> bool:
    return any(one.step.at is not None for one in run.results)


def _step_rows(one: StepResult, run: ScenarioRun) -> list[Row]:
    rows: list[Row] = []
    for came in one.pods:
        rows += pod_rows(came)
        rows += [_event(name, ("preempted", RED)) for name in _preempted(came, run.names)]
    act = one.step.act
    if isinstance(act, Restart):
        failed = one.refusal is not None
        rows.append(_event(KUBELET, ("does not start", RED) if failed else "restarted"))
        for came in one.again:
            if not isinstance(came.decision, Admitted):
                rows += pod_rows(came)
    elif isinstance(act, StartStep):
        started = {came.pod.uid: came for came in one.again}
        for came in started.values():
            rows += pod_rows(came, "started")
        rows += [_event(_short(name), ("not waiting", YELLOW)) for name, there in one.named if not there]
    elif isinstance(act, Devices):
        texts = [f"{change} {'all' if ids is None else ','.join(ids)}" for change, ids in act.changes]
        rows.append(_event(f"({act.resource})", "changed", "; ".join(texts)))
    elif one.step.word == "remove":
        rows += [
            _event(_short(name), ("removed", DIM) if there else ("not running", YELLOW))
            for name, there in one.named
        ]
    elif one.step.word == "reconcile":
        rows.append(_event(KUBELET, "reconciled"))
    elif isinstance(act, ResizeStep):
        rows += [_event(_short(name), ("not running", YELLOW)) for name, there in one.named if not there]
    elif isinstance(act, Retry) and not one.resizes:
        rows.append(_event(KUBELET, "no resize waits"))
    elif isinstance(act, Describe):
        rows.append(_event(NODE_OBJECT, "changed"))
    elif isinstance(act, Fill) and one.filled is not None and one.step.number:
        rows.append(_event(act.pod.name, f"{one.filled.count} more fit"))
    return rows + [_event(_short(resize.name), VERDICTS[verdict_of(resize)]) for resize in one.resizes]


def _event(what: str, verdict: Cell, devices: str = "-") -> Row:
    return [what, "-", verdict, "-", "-", devices, "-", "-"]


def _short(name: str) -> str:
    return name.removeprefix("default/")


def _preempted(one: Simulated, names: Mapping[str, str]) -> list[str]:
    return [_short(names.get(uid, uid)) for uid in one.preempted]


def pod_rows(one: Simulated, word: str = "") -> list[Row]:
    """A row for each container of a pod; ``word``: another one for the verdict."""
    return [_cells(one.pod.name, row, word) for row in container_rows(one)]


def _cells(pod: str, container: Data, word: str = "") -> Row:
    verdict = container["verdict"]
    cells: Row = [pod, container["name"], (word or verdict, STYLES[verdict])]
    affinity = container["affinity"]
    numa = "any" if affinity is None or affinity["numa"] is None else ",".join(map(str, affinity["numa"]))
    preferred: Cell = "-" if affinity is None else "yes" if affinity["preferred"] else ("no", YELLOW)
    if verdict != "admitted":
        return [*cells, "-", "-", "-", numa if affinity else "-", preferred]
    cpus = container["cpus"] or "any"
    devices = " ".join(f"{name}={','.join(ids)}" for name, ids in sorted(container["devices"].items()))
    return [
        *cells,
        cpus if container["exclusive"] else (f"shared ({cpus})", DIM),
        f"NUMA {container['memory']['numa']}" if container["memory"]["numa"] else "any",
        devices or "-",
        numa,
        preferred,
    ]


# --- below the table ------------------------------------------------------------------------


def notes(run: ScenarioRun) -> list[str]:
    """Why pods were refused, what the kubelet does unexpectedly, and what else happened."""
    found: list[str] = []
    for one in run.results:
        where = f"step {one.step.number}: " if one.step.number else ""
        for came in one.pods:
            lines = pod_notes(came, run.names)
            found += [line if line.startswith(" ") else f"{where}{line}" for line in lines]
        if isinstance(one.step.act, Restart):
            found += _restart_notes(one, where, run.names)
        for push in one.pushes:
            name = _short(run.names.get(push.uid, push.uid))
            found.append(f"{where}container {push.container} of {name} gets CPUs {format_ids(push.cpus)}")
        for resize in one.resizes:
            found += [f"{'' if line.startswith(' ') else where}{line}" for line in resize_notes(resize)]
    return [*found, *alignment_notes(run.pods), *_not_judged(run)]


def _not_judged(run: ScenarioRun) -> list[str]:
    """What was left out, pods alike together."""
    pods: dict[tuple[str, ...], list[str]] = {}
    for one in run.pods:
        if one.not_judged:
            pods.setdefault(one.not_judged, []).append(one.pod.name)
    return [f"{_some(names)}: {not_judged_text(fields)}" for fields, names in pods.items()]


def alignment_notes(pods: Iterable[Simulated]) -> list[str]:
    """What of the admitted pods is not aligned, and why, pods alike together."""
    names: dict[str, list[str]] = {}
    for one in pods:
        alignment = one.alignment
        if alignment is not None and noteworthy(alignment):
            names.setdefault(alignment_verdict(alignment), []).append(one.pod.name)
    return [f"{_some(some)}: {text[0].lower()}{text[1:]}" for text, some in names.items()]


def _some(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def pod_notes(one: Simulated, names: Mapping[str, str]) -> list[str]:
    """What there is to say about one pod; ``names``: of pods, by uid."""
    name, decision = one.pod.name, one.decision
    found = []
    if one.doubt.resources:
        found.append(f"{name}: {one.doubt.text}")
    if one.doubt.verdict:
        return found
    if one.preempted:
        found.append(f"{name}: {preempted_text(_preempted(one, names))}")
    if isinstance(decision, Rejected):
        found.append(f"{name}: {decision.reason}: {decision.message.rstrip()}")
        if decision.unmet is not None:
            cause, fix = unmet_text(decision.unmet, one.pod, lambda uid: _short(names.get(uid, uid)))
            found.append(f"    {cause}; {fix}")
        found += [f"    {line}" for line in hint_lines(one.steps)]
    elif isinstance(decision, Crashed):
        found.append(f"{name}: the kubelet crashes: {decision.message}")
    for started in one.started:
        if started.error:
            found.append(f"{name}: container {started.container} cannot start: {started.error}")
    found += [f"{name}: {claim.text}" for claim in one.claims]
    return found + [f"{name}: {code}: {text}" for code, text in findings(one.steps)]


def _restart_notes(one: StepResult, where: str, names: Mapping[str, str]) -> list[str]:
    if one.refusal is not None:
        return [f"{where}the kubelet would not start ({one.refusal.stage}): {one.refusal.message}"]
    kept = sum(isinstance(came.decision, Admitted) for came in one.again)
    found = [f"{where}{counted(kept, 'running pod')} admitted again"] if one.again else []
    for came in one.again:
        if not isinstance(came.decision, Admitted) or came.preempted:
            found += pod_notes(came, names)
    return found


def fill_lines(filled: Filled) -> list[str]:
    """How many more fit, where they went, and what ran out."""
    places = fill_places(filled)
    where = ", ".join(f"{count} {place_text(mask)}" for mask, count in places)
    name = filled.pod.name
    if not filled.count:
        lines = [f"{name}: no more fit"]
    else:
        lines = [f"{name}: {filled.count} more fit{f': {where}' if where else ''}"]
    stop = filled.stop
    if stop.by == LIMIT:
        lines.append("    and perhaps more: stopped there (--most)")
    elif stop.by == SUMS:
        lines.append(f"    the next one: {stop.reason}: {stop.why}")
    elif stop.by == START_ERROR:
        lines.append(f"    the next one: {stop.why}: {stop.message}")
    else:
        first = (
            f"{stop.reason}: {stop.message}"
            if stop.by == REJECTED
            else f"the kubelet crashes: {stop.message}"
        )
        lines += [f"    the next one: {first}", f"    {stop.why}"]
    return lines


def fill_places(filled: Filled) -> list[tuple[int, int]]:
    """NUMA nodes, packed, and how many copies went there; in order."""
    counts = Counter(one.numas(filled.machine) for one in filled.copies)
    return sorted(counts.items(), key=lambda item: (item[0].bit_count() == 0, item[0].bit_count(), item[0]))


def place_text(mask: int) -> str:
    """``on NUMA 0-1``."""
    return f"on NUMA {format_ids(mask)}" if mask else "in the shared pool"


def summary(run: ScenarioRun) -> str:
    """``4 of 6 pods admitted``; '' when there was none to admit."""
    came = len(run.pods)
    if not run.total:
        return ""
    text = f"{run.admitted} of {came} pods admitted"
    if run.incomplete:
        text += f", {run.incomplete} without a resource that this machine does not offer"
    if run.lost:
        text += f", {run.lost} of those that ran lost at a restart"
    if run.unsized:
        text += f", {counted(run.unsized, 'resize')} not carried out"
    if run.preempted:
        text += f", {run.preempted} ended for critical pods"
    if run.interrupted and came < run.total:
        text += f"; interrupted, {run.total - came} not tried"
    return text


# --- data -----------------------------------------------------------------------------------


def simulation_data(run: ScenarioRun, *, steps: bool) -> Data:
    """The whole simulation."""
    came = run.pods
    pods = []
    for one in run.results:
        number = {"step": one.step.number} if steps else {}
        pods += [{**whole_data(pod), **number} for pod in one.pods]
    found: Data = {
        "apiVersion": API_VERSION,
        "kind": "Simulation",
        "kubernetes": shown(run.version),
        "admitted": run.admitted,
        "rejected": (len(came) if run.interrupted else run.total) - run.admitted,
        "pods": pods,
    }
    if steps:
        found["lost"] = run.lost
        found["steps"] = [_step_data(one, run) for one in run.results if one.step.number]
    if run.fills:
        found["filled"] = [filled_data(one) for one in run.fills]
    if run.interrupted:
        found["interrupted"] = True
    return found


def whole_data(one: Simulated) -> Data:
    """Everything about one pod."""
    found = {
        **pod_data(one.pod, one.decision, one.steps, one.started, one.granted),
        **aligned_data(one),
    }
    if one.doubt.resources:
        found["not_known"] = list(one.doubt.resources)
    if one.doubt.verdict:
        found["verdict"], found["containers"] = NOT_KNOWN, container_rows(one)
    if one.preempted:
        found["preempted"] = list(one.preempted)
    if one.not_judged:
        found["not_judged"] = list(one.not_judged)
    if one.claims:
        found["claims"] = plain(one.claims)
    return found


def aligned_data(one: Simulated) -> Data:
    """What of an admitted pod is aligned, in one sentence and resource by resource."""
    alignment = one.alignment
    if alignment is None:
        return {}
    return {"answer": alignment_text(alignment), "alignment": plain(alignment)}


def _step_data(one: StepResult, run: ScenarioRun) -> Data:
    act = one.step.act
    found: Data = {"step": one.step.number, "at": one.step.at, "op": one.step.word}
    if one.pods:
        found["pods"] = [came.pod.uid for came in one.pods]
    if one.named:
        found["pods"] = [{"pod": name, "done": there} for name, there in one.named]
    if isinstance(act, Restart):
        found["config"] = act.config or None
        found["error"] = {"stage": one.refusal.stage, "message": one.refusal.message} if one.refusal else None
        found["readmitted"] = [whole_data(came) for came in one.again]
    elif isinstance(act, StartStep):
        found["started"] = [{"uid": came.pod.uid, "containers": container_rows(came)} for came in one.again]
    elif isinstance(act, Devices):
        found["resource"] = act.resource
        found["changes"] = {change: "all" if ids is None else list(ids) for change, ids in act.changes}
    elif one.step.word == "reconcile":
        found["pushed"] = [
            {
                "pod": run.names.get(push.uid, push.uid),
                "container": push.container,
                "cpus": format_ids(push.cpus),
            }
            for push in one.pushes
        ]
    elif one.filled is not None:
        found["count"] = one.filled.count
    if one.resizes or isinstance(act, ResizeStep | Retry):
        found["resizes"] = [resized_data(resize) for resize in one.resizes]
    return found


def filled_data(filled: Filled) -> Data:
    """How many more fit, and where."""
    stop = filled.stop
    return {
        "pod": filled.pod.name,
        "count": filled.count,
        "places": [{"numa": list(ids_of(mask)), "count": count} for mask, count in fill_places(filled)],
        "stopped": {
            "by": stop.by,
            "reason": stop.reason or None,
            "message": stop.message or None,
            "why": stop.why or None,
        },
        "copies": [{"name": one.pod.name, "containers": container_rows(one)} for one in filled.copies],
    }
