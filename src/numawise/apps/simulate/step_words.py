"""What came of a step, in the words of ``simulate`` and ``why``, for a page that shows step after step.

Rules kept here:

1. Rows and notes are those of ``simulate``; a refusal has the sentence of ``why``, an admission that of its
   alignment.
2. The verdict of a step is the worst of its pods.
3. Of many pods that are refused at one step the first are explained, the others have the kubelet's words.
"""

from collections.abc import Iterator, Mapping, Sequence

from numawise.codec.decision import verdict
from numawise.codec.steps import BACK, duration_text
from numawise.engine.admit import Admitted, Crashed, Rejected
from numawise.errors import SearchEnded, cut
from numawise.explain.case import case_of
from numawise.explain.explain import explain
from numawise.node.node import SimulatedNode
from numawise.render.alignment import alignment_text
from numawise.render.resize import VERDICTS, resize_notes, verdict_of
from numawise.render.simulation import notes, pod_rows
from numawise.render.words import clean, counted
from numawise.request.defaults import RawPod
from numawise.results.scenario import DONE, LOST, STARTS_NOT, PlayedStep, StepPod
from numawise.results.simulation import (
    NOT_KNOWN,
    Add,
    Describe,
    Devices,
    Fill,
    Reconcile,
    Remove,
    ResizeStep,
    Restart,
    Retry,
    ScenarioRun,
    Simulated,
    StartStep,
    StepResult,
)
from numawise.values import replace

WORST = (
    STARTS_NOT,
    "crashed",
    LOST,
    "rejected",
    "refused",
    "infeasible",
    "preempted",
    "deferred",
    NOT_KNOWN,
    "admitted",
    "resized",
    DONE,
)
MOST_NAMED, MOST_EXPLAINED = 3, 8
DEFAULT = "default/"


def step_words(node: SimulatedNode, results: Sequence[StepResult], run: ScenarioRun) -> PlayedStep:
    """One step in words; ``node``: as it is afterwards."""
    first = results[0]
    alone = replace(run, results=list(results))
    pods = tuple(pod for result in results for pod in _pods(node, result, run.names))
    titles = [_title(result, run.names) for result in results]
    verdicts = [pod.verdict for pod in pods if pod.verdict in WORST]
    verdicts += [STARTS_NOT for result in results if result.refusal is not None]
    number = f"step {first.step.number}: "
    return PlayedStep(
        number=first.step.number,
        op=first.step.word,
        title=clean("; ".join(titles)),
        verdict=min(verdicts, key=WORST.index, default=DONE),
        at="" if first.step.at is None else duration_text(first.step.at),
        pods=pods,
        notes=tuple(clean(line.removeprefix(number)) for line in notes(alone)),
    )


def _pods(node: SimulatedNode, result: StepResult, names: Mapping[str, str]) -> Iterator[StepPod]:
    act = result.step.act
    raws = {raw.uid: raw for raw in act.pods} if isinstance(act, Add) else {}
    explained = 0
    for came in result.pods:
        explained += not isinstance(came.decision, Admitted)
        yield _pod(node, came, raws.get(came.pod.uid) if explained <= MOST_EXPLAINED else None)
        for uid in came.preempted:
            yield StepPod(uid, _short(names, uid), "preempted", f"ended to make room for {came.pod.name}")
    if isinstance(act, Restart):
        for came in result.again:
            if not isinstance(came.decision, Admitted):
                yield replace(_pod(node, came, None), verdict=LOST)
    elif isinstance(act, StartStep):
        for came in result.again:
            yield StepPod(came.pod.uid, _name(came), "started", rows=_rows(came, "started"))
    if isinstance(act, Remove | StartStep | ResizeStep):
        missing = "not waiting" if isinstance(act, StartStep) else "not running"
        for uid, (name, there) in zip(result.uids, result.named, strict=True):
            if not there:
                yield StepPod(uid, clean(name.removeprefix(DEFAULT)), missing)
            elif isinstance(act, Remove):
                yield StepPod(uid, clean(name.removeprefix(DEFAULT)), "removed")
    for copy in result.filled.copies if result.filled is not None else ():
        yield _pod(node, copy, None)
    for resize in result.resizes:
        word = VERDICTS[verdict_of(resize)]
        yield StepPod(
            resize.result.uid,
            clean(resize.name.removeprefix(DEFAULT)),
            word[0] if isinstance(word, tuple) else word,
            clean(". ".join(line.strip() for line in resize_notes(resize))),
        )


def _pod(node: SimulatedNode, came: Simulated, raw: RawPod | None) -> StepPod:
    word = NOT_KNOWN if came.doubt.verdict else verdict(came.decision)
    return StepPod(came.pod.uid, _name(came), word, clean(_sentence(node, came, raw)), _rows(came))


def _sentence(node: SimulatedNode, came: Simulated, raw: RawPod | None) -> str:
    """Rule 1."""
    alignment = came.alignment
    if came.doubt.resources:
        return came.doubt.text
    if alignment is not None:
        return alignment_text(alignment)
    decision = came.decision
    if isinstance(decision, Crashed):
        return f"the kubelet crashes: {decision.message}"
    if raw is not None:
        try:
            return explain(case_of(replace(node, state=came.granted), raw), suggest=False).answer
        except SearchEnded:
            pass
    return f"{decision.reason}: {decision.message.rstrip()}" if isinstance(decision, Rejected) else ""


def _rows(came: Simulated, word: str = "") -> tuple[tuple[str, ...], ...]:
    return tuple(
        tuple(clean(cell if isinstance(cell, str) else cell[0]) for cell in row)
        for row in pod_rows(came, word)
    )


def _name(came: Simulated) -> str:
    return clean(f"{came.pod.namespace}/{came.pod.name}".removeprefix(DEFAULT))


def _short(names: Mapping[str, str], uid: str) -> str:
    return clean(names.get(uid, uid).removeprefix(DEFAULT))


# --- titles ---------------------------------------------------------------------------------------


def _title(result: StepResult, names: Mapping[str, str]) -> str:
    """What happened, in a few words."""
    act = result.step.act
    if isinstance(act, Add):
        return f"{_some([raw.name for raw in act.pods])}{'' if act.start else ', not started'}"
    if isinstance(act, Remove):
        return f"remove {_some([_short(names, uid) for uid in result.uids])}"
    if isinstance(act, StartStep):
        return f"start {_some([_short(names, uid) for uid in result.uids])}"
    if isinstance(act, Restart):
        return _restart(act)
    if isinstance(act, Devices):
        changes = [f"{'all' if ids is None else _some(ids)} {_health(change)}" for change, ids in act.changes]
        return f"{act.resource}: {'; '.join(changes)}"
    if isinstance(act, ResizeStep):
        return f"resize {cut(act.name.removeprefix(DEFAULT))}"
    if isinstance(act, Fill):
        count = result.filled.count if result.filled is not None else 0
        return f"{count} more of {act.pod.name}"
    return {Reconcile: "reconcile", Retry: "retry resizes", Describe: "the Node object changes"}[type(act)]


def _restart(act: Restart) -> str:
    more = ["another configuration"] if act.text or act.config else []
    more += ["plugins late"] if act.late else []
    more += [f"without {counted(len(act.delete), 'state file')}"] if act.delete else []
    return f"restart{': ' if more else ''}{', '.join(more)}"


def _health(change: str) -> str:
    return "healthy again" if change == BACK else change


def _some(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
