"""Scenarios on one node: pods come and go, devices fall ill, the kubelet restarts.

Rules kept here:

1. Steps happen in their order and nothing happens between them, the CPU Manager's loop included.
2. A restart admits all live pods again, as a kubelet does that finds them running; those it refuses are lost.
3. What is known so far can be looked at any time: an interrupted run keeps what was done.
4. A crash of the kubelet, or one that does not start again, ends it.
5. A pod whose manifest has a uid, and a static pod, comes back under its uid once it was removed.  Any other
   is another pod each time it is added; where its uid was there before, it gets a number.
"""

from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase

from numawise.codec.document import field_name
from numawise.codec.pod import unique_uids
from numawise.codec.steps import (
    ADD,
    BACK,
    FILL,
    GONE,
    RESIZE,
    RESTART,
    Timed,
)
from numawise.engine.admit import Admitted, Crashed, Rejected
from numawise.engine.lifecycle import start_containers
from numawise.engine.predicates import Sums, insufficient, judged
from numawise.engine.state import NodeState
from numawise.errors import InputError, meant, quoted
from numawise.inputs.config import ConfigInput, config_in, read_config
from numawise.machine.model import Device
from numawise.node.node import SimulatedNode, restart, simulate, with_devices
from numawise.node.resizing import resize, settle
from numawise.render.words import insufficient_text
from numawise.request.defaults import RawPod
from numawise.results.simulation import (
    CRASHED,
    REJECTED,
    START_ERROR,
    SUMS,
    Act,
    Add,
    Describe,
    Devices,
    Fill,
    Filled,
    FillEnd,
    Reconcile,
    Remove,
    Resized,
    ResizeStep,
    Restart,
    Retry,
    ScenarioRun,
    ScenarioStep,
    Simulated,
    StartStep,
    StepResult,
)
from numawise.rules.check import Refusal
from numawise.rules.model import KubeletConfig
from numawise.rules.versions import Version
from numawise.values import dataclass, field, replace

MOST_COPIES = 10_000

Progress = Callable[[int], None]
"""Called with the number of pods that are done."""


def script(
    pods: Sequence[RawPod],
    steps: Sequence[Timed],
    fills: Sequence[Fill] = (),
    resizes: Sequence[ResizeStep] = (),
) -> tuple[Timed, ...]:
    """All that is to happen: pods first (step 0), the steps, resizes, and then what is left is filled up."""
    acts = [Timed(0, ADD, Add(tuple(pods)))] if pods else []
    acts += steps
    last = acts[-1] if acts else None
    for act in resizes:
        number = acts[-1].number + 1 if acts else 1
        acts.append(Timed(number, RESIZE, act, last.at if last else None))
    for extra in fills:
        number = acts[-1].number + 1 if steps or resizes else 0
        acts.append(Timed(number, FILL, extra, last.at if last else None))
    names = PodNames()
    return tuple(map(names.told, acts))


@dataclass(slots=True)
class PodNames:
    """The uids of pods as they come, one step after the other (rule 5)."""

    seen: dict[str, int] = field(default_factory=dict)
    live: dict[str, str] = field(default_factory=dict)
    """Uid as written → namespace and name of pods that are there."""
    gone: set[str] = field(default_factory=set)

    def copy(self) -> "PodNames":
        """The same, to go on from."""
        return PodNames(dict(self.seen), dict(self.live), set(self.gone))

    def told(self, step: Timed) -> Timed:
        """A step whose pods have uids that no other pod has."""
        act = step.act
        if isinstance(act, Remove):
            for uid, known in list(self.live.items()):
                if any(
                    name in (uid, known, known.rpartition("/")[2]) or _matches(name, known)
                    for name in act.names
                ):
                    self.gone.add(uid)
                    del self.live[uid]
        if not isinstance(act, Add):
            return step
        return replace(step, act=replace(act, pods=tuple(map(self._came, act.pods))))

    def _came(self, pod: RawPod) -> RawPod:
        known = f"{pod.namespace}/{pod.name}"
        self.live[pod.uid] = known
        if pod.uid in self.gone and (pod.uid != known or pod.constraints.static):
            self.gone.discard(pod.uid)
            return pod
        (named,) = unique_uids([pod], self.seen)
        return named


def run_scenario(
    node: SimulatedNode, steps: Sequence[Timed], progress: Progress = lambda _: None, most: int = MOST_COPIES
) -> ScenarioRun:
    """Let the steps happen to a node; interrupted, the run has what was done so far (rule 3)."""
    stage = Stage.of(node, progress, most)
    run = stage.run
    run.total = arriving(steps)
    try:
        for step in steps:
            if run.ended:
                break
            stage.act(step)
    except KeyboardInterrupt:
        run.interrupted = True
    run.state, run.rules = stage.node.state, stage.node.rules
    return run


def arriving(steps: Iterable[ScenarioStep]) -> int:
    """How many pods should come."""
    return sum(len(step.act.pods) for step in steps if isinstance(step.act, Add))


class Stage:
    """A node while steps happen to it."""

    def __init__(self, node: SimulatedNode, run: ScenarioRun, progress: Progress, most: int) -> None:
        self.node = node
        self.run = run
        self.progress = progress
        self.most = most
        self.called: dict[str, list[str]] = {}
        """What a pod can be called → uids."""
        self.waiting: dict[str, Admitted] = {}
        """Pods that were admitted and not started."""
        self.plugins = {plugin.resource: plugin for plugin in node.machine.plugins}

    @classmethod
    def of(cls, node: SimulatedNode, progress: Progress = lambda _: None, most: int = MOST_COPIES) -> "Stage":
        """A node before the first step, its pods known by their names."""
        node.write_files = False
        stage = cls(node, ScenarioRun(node.state, node.rules, node.version), progress, most)
        stage.run.waited = set(node.state.resizes.desired)
        for uid, pod in node.state.active.items():
            if pod is not None:
                stage.know(uid, pod.namespace, pod.name)
            else:
                stage.run.names[uid] = uid
                stage.called[uid] = [uid]
        return stage

    def copy(self) -> "Stage":
        """The same with no steps behind it, to go on from; what happens to it does not touch this one."""
        files = replace(self.node.files, texts=dict(self.node.files.texts))
        run = replace(self.run, results=[], names=dict(self.run.names), owners=dict(self.run.owners))
        run.waited = set(self.run.waited)
        stage = Stage(replace(self.node, files=files), run, self.progress, self.most)
        stage.called = {name: list(uids) for name, uids in self.called.items()}
        stage.waiting, stage.plugins = dict(self.waiting), dict(self.plugins)
        return stage

    def know(self, uid: str, namespace: str, name: str, owner: str = "") -> None:
        """A pod has come, under these names."""
        if uid not in self.run.names:
            for called in dict.fromkeys((uid, f"{namespace}/{name}", name)):
                self.called.setdefault(called, []).append(uid)
        self.run.names[uid] = f"{namespace}/{name}"
        if owner:
            self.run.owners[uid] = owner

    def act(self, step: Timed) -> None:
        """Let one step happen."""
        result = StepResult(step)
        self.run.results.append(result)
        act: Act = step.act
        if isinstance(act, Add):
            self.add(result, act)
        elif isinstance(act, StartStep):
            self.start(result, act)
        elif isinstance(act, Remove):
            self.remove(result, act)
        elif isinstance(act, Restart):
            self.restart(result, act)
        elif isinstance(act, Reconcile):
            result.pushes = self.node.reconcile()
        elif isinstance(act, Devices):
            self.devices(result, act)
        elif isinstance(act, ResizeStep):
            self.resize(result, act)
        elif isinstance(act, Retry):
            self.tried(result, settle(self.node, self.node.retry(), self.run.names))
        elif isinstance(act, Describe):
            self.node.describe(act.description)
        else:
            self.fill(result, act)

    def add(self, result: StepResult, act: Add) -> None:
        for raw in act.pods:
            self.know(raw.uid, raw.namespace, raw.name, raw.owner.partition(" ")[2] or raw.name)
            pod = self.node.requested(raw)
            (came,) = simulate(self.node, [pod], start=act.start)
            result.pods.append(came)
            for uid in came.preempted:
                self.waiting.pop(uid, None)
            if isinstance(came.decision, Crashed):
                self.run.ended = True
                return
            if isinstance(came.decision, Admitted):
                self.node.await_size(raw)
                self.run.waited |= {raw.uid} & self.node.state.resizes.desired.keys()
                if not act.start:
                    self.waiting[pod.uid] = came.decision
            self.run.done += 1
            self.progress(self.run.done)

    def start(self, result: StepResult, act: StartStep) -> None:
        for uid in self.uids(result, act.names):
            decision, pod = self.waiting.pop(uid, None), self.node.state.active.get(uid)
            result.named.append((self.run.names[uid], decision is not None))
            result.uids.append(uid)
            if decision is None or pod is None:
                continue
            granted = self.node.state
            started = self.node.start(pod, decision)
            granted = with_devices(granted, self.node.state)
            came = Simulated(pod, decision, (), started, granted, self.node.facts)
            result.again.append(came)

    def remove(self, result: StepResult, act: Remove) -> None:
        for uid in self.uids(result, act.names):
            there = uid in self.node.state.active
            self.tried(result, settle(self.node, self.node.remove(uid), self.run.names))
            self.waiting.pop(uid, None)
            result.named.append((self.run.names[uid], there))
            result.uids.append(uid)

    def resize(self, result: StepResult, act: ResizeStep) -> None:
        for uid in self.uids(result, [act.name]):
            there = self.node.desired(uid) is not None
            self.run.waited.discard(uid)
            result.named.append((self.run.names[uid], there))
            result.uids.append(uid)
            try:
                self.tried(result, resize(self.node, uid, act.change, self.run.names))
            except InputError as problem:
                raise _error(result.step, problem.message, problem.advice) from None
            except ValueError as problem:
                raise _error(result.step, str(problem), "name one of them") from None

    def tried(self, result: StepResult, resizes: Sequence[Resized]) -> None:
        """Resizes were tried."""
        result.resizes += resizes
        self.run.ended = self.run.ended or any(isinstance(one.result.decision, Crashed) for one in resizes)

    def uids(self, result: StepResult, names: Iterable[str]) -> list[str]:
        """The pods that are meant; those that are there, else the last that was."""
        active = self.node.state.active
        found: dict[str, None] = {}
        for name in names:
            uids = self.called.get(name, [])
            if not uids and "*" in name:
                uids = [uid for uid, known in self.run.names.items() if _matches(name, known)]
            if not uids:
                raise _error(
                    result.step, f"there is no pod {quoted(name)}", _near(name, self.run.names.values())
                )
            here = [uid for uid in uids if uid in active]
            if len(here) > 1 and "*" not in name:
                advice = f"name one of them by its uid: {', '.join(here[:4])}"
                raise _error(result.step, f"{quoted(name)} matches several pods", advice)
            found.update(dict.fromkeys(here or uids[-1:]))
        return list(found)

    def restart(self, result: StepResult, act: Restart) -> None:
        """Rule 2."""
        config = self.node.config
        if act.config:
            config = read_config(act.config).config(self.node.version)
        elif act.text:
            config = _restart_settings(result.step, act, self.node.version)
        again = restart(self.node, config, self.plugins.values(), late=act.late, delete=act.delete)
        if isinstance(again, Refusal):
            result.refusal, self.run.ended = again, True
            return
        self.node, outcomes = again
        result.again += outcomes
        self.run.ended = bool(outcomes) and isinstance(outcomes[-1].decision, Crashed)

    def devices(self, result: StepResult, act: Devices) -> None:
        known = self.plugins.get(act.resource)
        every = next((p for p in self.node.machine.plugins if p.resource == act.resource), None)
        if known is None or every is None:
            resources = ", ".join(self.plugins) or "none"
            raise _error(
                result.step, f"there is no device plugin for {act.resource}", f"there are {resources}"
            )
        listed = {device.id: device for device in known.devices}
        for change, ids in act.changes:
            for name in ids if ids is not None else [device.id for device in every.devices]:
                device = next((d for d in every.devices if d.id == name), None)
                if device is None:
                    advice = f"there are {', '.join(d.id for d in every.devices[:8])}"
                    raise _error(result.step, f"there is no device {quoted(name)} of {act.resource}", advice)
                _change(listed, device, change)
        order = {device.id: at for at, device in enumerate(every.devices)}
        devices = tuple(sorted(listed.values(), key=lambda device: order[device.id]))
        self.plugins[act.resource] = replace(known, devices=devices)
        self.node.devices_changed(act.resource, devices)

    def fill(self, result: StepResult, act: Fill) -> None:
        result.filled = Filled(act.pod, self.node.machine)
        most = self.most if act.most is None else min(act.most, self.most)
        before = self.run.done
        try:
            fill(self.node, result.filled, most, lambda done: self.progress(before + done))
        finally:  # an interruption leaves what was done
            self.run.done += result.filled.count
            for copy in result.filled.copies:
                self.know(copy.pod.uid, copy.pod.namespace, copy.pod.name, act.pod.name)


def restart_config(step: ScenarioStep, act: Restart) -> ConfigInput:
    """The configuration that a restart carries with it."""
    part = step.part if isinstance(step, Timed) else None
    name = f"{field_name(part.steps)}.{RESTART}.text" if part is not None else "configuration"
    return config_in(act.text, name)


def _restart_settings(step: ScenarioStep, act: Restart, version: Version) -> KubeletConfig:
    """What a release makes of it; what is wrong is said at the lines of the scenario, where it is a file."""
    try:
        return restart_config(step, act).config(version)
    except InputError as problem:
        part = step.part.at(RESTART, "text") if isinstance(step, Timed) and step.part is not None else None
        first = part.document.line(part.steps) if part is not None else None
        if part is None or first is None:
            raise
        raise InputError(
            problem.message,
            file=part.document.file,
            line=first + (problem.line or 0),
            field=problem.field,
            advice=problem.advice,
        ) from None


def _change(listed: dict[str, Device], device: Device, change: str) -> None:
    if change == GONE:
        listed.pop(device.id, None)
    else:
        listed[device.id] = replace(device, healthy=change == BACK)


def _matches(pattern: str, known: str) -> bool:
    return fnmatchcase(known if "/" in pattern else known.rpartition("/")[2], pattern)


def _near(name: str, known: Iterable[str]) -> str:
    names = list(dict.fromkeys(one.removeprefix("default/") for one in known))
    near = meant(name, names)
    if near:
        return f"did you mean {quoted(near)}?"
    return f"so far there are {', '.join(names[:8])}" if names else "none has come so far"


def _error(step: ScenarioStep, message: str, advice: str) -> InputError:
    if not isinstance(step, Timed) or step.part is None:
        return InputError(message, advice=advice)
    return step.part.error(message, advice)


# --------------------------------------------------------------------------------------------------
# How many more of these fit?  Copies of a pod until one is refused.
#
# Rules kept here:
#
# 1. A copy fits when the scheduler would send it (the sum of all requests stays within what is allocatable),
#    the kubelet admits it, and its containers start.
# 2. The copy that does not fit leaves no trace.  Its refusal is called as the kubelet calls it, and as the
#    sums do where the kubelet would let it in.
# 3. It ends at ``most`` copies in any case.


def fill(
    node: SimulatedNode, found: Filled, most: int = MOST_COPIES, progress: Progress | None = None
) -> None:
    """Admit and start copies of a pod on a node until one does not fit; each is found as soon as it runs."""
    limit = node.allocatable()
    while found.count < most:
        raw = copy_of(found.pod, found.count)
        pod = node.requested(raw)
        short = next(iter(insufficient(node.rules, Sums(limit, node.used()), judged(node.rules, pod))), None)
        decision = node.ask(pod)
        if isinstance(decision, Rejected):
            found.stop = FillEnd(REJECTED, decision.reason, decision.message, _why(node, raw))
            return
        if short is not None:
            found.stop = FillEnd(SUMS, short.reason, short.message, insufficient_text(short))
            return
        if isinstance(decision, Crashed):
            found.stop = FillEnd(CRASHED, "", decision.message, _why(node, raw))
            return
        state, started = start_containers(node.machine, node.rules, decision.state, pod, decision.affinity)
        failed = next((one for one in started if one.error), None)
        if failed is not None:
            found.stop = FillEnd(
                START_ERROR, "", failed.error, f"container {failed.container} could not start"
            )
            return
        granted = NodeState(decision.state.cpu, decision.state.memory, state.devices)
        node.keep(state)
        found.copies.append(Simulated(pod, decision, (), started, granted, node.facts))
        if progress is not None:
            progress(found.count)


def copy_of(pod: RawPod, number: int) -> RawPod:
    """One of many copies."""
    name = f"{pod.name}-{number}"
    return replace(
        pod, name=name, uid=f"copy/{pod.namespace}/{name}", owner=pod.owner or f"Pod {pod.name}", qos=pod.qos
    )


def _why(node: SimulatedNode, raw: RawPod) -> str:
    from numawise.explain.case import case_of  # noqa: PLC0415 - few pods need it
    from numawise.explain.explain import explain  # noqa: PLC0415

    return explain(case_of(node, raw), suggest=False).answer
