"""Play a scenario on one node: pods come and go, devices fall ill, the kubelet restarts.

Rules kept here:

1. Steps happen in their order and nothing happens between them, the CPU Manager's loop included.
2. A restart admits all live pods again, as a kubelet does that finds them running; those it refuses are lost.
3. What is known so far can be looked at any time: an interrupted play keeps what was done.
4. A crash of the kubelet, or one that does not start again, ends it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from numawise.apps.simulate.fill import MOST, Filled, Progress, fill
from numawise.codec.pod import unique_uids
from numawise.codec.steps import (
    ADD,
    BACK,
    FILL,
    GONE,
    Act,
    Add,
    Devices,
    Fill,
    Reconcile,
    Remove,
    Restart,
    StartStep,
    Timed,
)
from numawise.engine.admit import Admitted, Crashed
from numawise.engine.lifecycle import Started
from numawise.engine.state import NodeState
from numawise.errors import InputError, meant
from numawise.inputs.files import load_kubelet_config
from numawise.machine.model import Device, DevicePlugin
from numawise.node.node import Node, Simulated, boot, simulate, with_devices
from numawise.request.defaults import RawPod
from numawise.rules.check import Refusal
from numawise.rules.versions import Version


@dataclass(slots=True)
class Played:
    """What came of one step."""

    step: Timed
    pods: list[Simulated] = field(default_factory=list)
    """Pods that came."""
    again: list[Simulated] = field(default_factory=list)
    """Running pods that were admitted again, or refused."""
    named: list[tuple[str, bool]] = field(default_factory=list)
    """Pods that the step is about, and whether they were there."""
    pushes: tuple[Started, ...] = ()
    """Containers that got other CPUs."""
    filled: Filled | None = None
    refusal: Refusal | None = None
    """The kubelet does not start again."""


@dataclass(slots=True)
class Play:
    """A node, and all that happened to it."""

    node: Node
    version: Version
    played: list[Played] = field(default_factory=list)
    total: int = 0
    """Pods that should come."""
    done: int = 0
    """Pods that came so far, copies of a fill included."""
    most: int = MOST
    ended: bool = False
    """Nothing can follow: the kubelet crashed or did not start."""
    interrupted: bool = False
    known: dict[str, str] = field(default_factory=dict)
    """Uid → namespace and name of every pod that ever came."""
    called: dict[str, list[str]] = field(default_factory=dict)
    """What a pod can be called → uids."""
    owners: dict[str, str] = field(default_factory=dict)
    """Uid → whose pod it is, for maps with too many pods to name each."""
    waiting: dict[str, Admitted] = field(default_factory=dict)
    """Pods that were admitted and not started."""
    plugins: dict[str, DevicePlugin] = field(default_factory=dict)

    def know(self, uid: str, namespace: str, name: str, owner: str = "") -> None:
        """A pod has come, under these names."""
        if uid not in self.known:
            for one in dict.fromkeys((uid, f"{namespace}/{name}", name)):
                self.called.setdefault(one, []).append(uid)
        self.known[uid] = f"{namespace}/{name}"
        if owner:
            self.owners[uid] = owner

    @property
    def pods(self) -> list[Simulated]:
        """All pods that came, copies of a fill left out."""
        return [one for step in self.played for one in step.pods]

    @property
    def admitted(self) -> int:
        """How many of them were let in."""
        return sum(isinstance(one.decision, Admitted) for one in self.pods)

    @property
    def lost(self) -> int:
        """Running pods that a restart refused."""
        return sum(not isinstance(one.decision, Admitted) for step in self.played for one in step.again)

    @property
    def fills(self) -> list[Filled]:
        """What came of every fill."""
        return [step.filled for step in self.played if step.filled is not None]

    @property
    def well(self) -> bool:
        """Everything was let in, stayed in, and of everything to be filled in there was room for one."""
        return (
            not self.ended
            and self.admitted == self.total
            and not self.lost
            and all(one.count for one in self.fills)
        )


def script(pods: Sequence[RawPod], steps: Sequence[Timed], fills: Sequence[Fill] = ()) -> tuple[Timed, ...]:
    """All that is to happen: pods first (step 0), then the steps, then what is left is filled up."""
    acts = [Timed(0, ADD, Add(tuple(pods)))] if pods else []
    acts += steps
    last = acts[-1] if acts else None
    for extra in fills:
        number = acts[-1].number + 1 if steps else 0
        acts.append(Timed(number, FILL, extra, last.at if last else None))
    came = iter(unique_uids(pod for one in acts if isinstance(one.act, Add) for pod in one.act.pods))
    return tuple(
        replace(one, act=replace(one.act, pods=tuple(next(came) for _ in one.act.pods)))
        if isinstance(one.act, Add)
        else one
        for one in acts
    )


def play(
    node: Node,
    steps: Sequence[Timed],
    version: Version,
    progress: Progress = lambda _: None,
    most: int = MOST,
) -> Play:
    """Let the steps happen to a node; interrupted, it tells what was done so far (rule 3)."""
    node.write_files = False
    found = Play(node, version, most=most, plugins={one.resource: one for one in node.machine.plugins})
    found.total = sum(len(step.act.pods) for step in steps if isinstance(step.act, Add))
    for uid, pod in node.state.active.items():
        if pod is not None:
            found.know(uid, pod.namespace, pod.name)
        else:
            found.known[uid] = uid
            found.called[uid] = [uid]
    try:
        for step in steps:
            if found.ended:
                break
            _Stage(found, progress).act(step)
    except KeyboardInterrupt:
        found.interrupted = True
    return found


@dataclass(slots=True)
class _Stage:
    play: Play
    progress: Progress

    @property
    def node(self) -> Node:
        return self.play.node

    def act(self, step: Timed) -> None:
        """Let one step happen."""
        one = Played(step)
        self.play.played.append(one)
        act: Act = step.act
        if isinstance(act, Add):
            self.add(one, act)
        elif isinstance(act, StartStep):
            self.start(one, act)
        elif isinstance(act, Remove):
            self.remove(one, act)
        elif isinstance(act, Restart):
            self.restart(one, act)
        elif isinstance(act, Reconcile):
            one.pushes = self.node.reconcile()
        elif isinstance(act, Devices):
            self.devices(one, act)
        else:
            self.fill(one, act)

    def add(self, one: Played, act: Add) -> None:
        for raw in act.pods:
            self.play.know(raw.uid, raw.namespace, raw.name, raw.owner.partition(" ")[2] or raw.name)
            pod = self.node.requested(raw)
            (came,) = simulate(self.node, [pod], start=act.start)
            one.pods.append(came)
            if isinstance(came.decision, Crashed):
                self.play.ended = True
                return
            if isinstance(came.decision, Admitted) and not act.start:
                self.play.waiting[pod.uid] = came.decision
            self.play.done += 1
            self.progress(self.play.done)

    def start(self, one: Played, act: StartStep) -> None:
        for uid in self.uids(one, act.names):
            decision, pod = self.play.waiting.pop(uid, None), self.node.state.active.get(uid)
            one.named.append((self.play.known[uid], decision is not None))
            if decision is None or pod is None:
                continue
            granted = self.node.state
            started = self.node.start(pod, decision)
            came = Simulated(pod, decision, (), started, with_devices(granted, self.node.state))
            one.again.append(came)

    def remove(self, one: Played, act: Remove) -> None:
        for uid in self.uids(one, act.names):
            there = uid in self.node.state.active
            self.node.remove(uid)
            self.play.waiting.pop(uid, None)
            one.named.append((self.play.known[uid], there))

    def uids(self, one: Played, names: Iterable[str]) -> list[str]:
        """The pods that are meant; those that are there, else the last that was."""
        active = self.node.state.active
        found: dict[str, None] = {}
        for name in names:
            uids = self.play.called.get(name, [])
            if not uids and "*" in name:
                uids = [uid for uid, known in self.play.known.items() if _matches(name, known)]
            if not uids:
                raise _error(one.step, f"there is no pod {name!r}", _near(name, self.play.known.values()))
            here = [uid for uid in uids if uid in active]
            if len(here) > 1 and "*" not in name:
                advice = f"name one of them by its uid: {', '.join(here[:4])}"
                raise _error(one.step, f"{name!r} could be several pods", advice)
            found.update(dict.fromkeys(here or uids[-1:]))
        return list(found)

    def restart(self, one: Played, act: Restart) -> None:
        """Rule 2."""
        old = self.node
        config = old.config
        if act.config:
            config = load_kubelet_config(act.config, self.play.version)
        old.files.write(old.rules, old.state)
        for name in act.delete:
            old.files.texts.pop(name, None)
        pods = [pod for pod in old.state.active.values() if pod is not None]
        node = boot(old.machine, config, old.files, old.state, version=self.play.version)
        if isinstance(node, Refusal):
            one.refusal, self.play.ended = node, True
            return
        node.write_files, node.predicates = False, old.predicates
        self.play.node = node
        plugins = self.play.plugins.values()
        if not act.late:
            node.plugins_registered(plugins)
        for pod in pods:
            steps: list = []  # type: ignore[type-arg]
            decision = node.admit(pod, steps.append)
            granted = NodeState(node.state.cpu, node.state.memory, node.state.devices)
            one.again.append(Simulated(pod, decision, tuple(steps), (), granted))
            if isinstance(decision, Crashed):
                self.play.ended = True
                return
        if act.late:
            node.plugins_registered(plugins)
        node.sources_ready()

    def devices(self, one: Played, act: Devices) -> None:
        known = self.play.plugins.get(act.resource)
        every = next((p for p in self.node.machine.plugins if p.resource == act.resource), None)
        if known is None or every is None:
            resources = ", ".join(self.play.plugins) or "none"
            raise _error(one.step, f"there is no device plugin for {act.resource}", f"there are {resources}")
        listed = {device.id: device for device in known.devices}
        for change, ids in act.changes:
            for name in ids if ids is not None else [device.id for device in every.devices]:
                device = next((d for d in every.devices if d.id == name), None)
                if device is None:
                    advice = f"there are {', '.join(d.id for d in every.devices[:8])}"
                    raise _error(one.step, f"there is no device {name!r} of {act.resource}", advice)
                _change(listed, device, change)
        order = {device.id: at for at, device in enumerate(every.devices)}
        devices = tuple(sorted(listed.values(), key=lambda device: order[device.id]))
        self.play.plugins[act.resource] = replace(known, devices=devices)
        self.node.devices_changed(act.resource, devices)

    def fill(self, one: Played, act: Fill) -> None:
        one.filled = Filled(act.pod)
        most = self.play.most if act.most is None else min(act.most, self.play.most)
        before = self.play.done
        try:
            fill(self.node, one.filled, most, lambda done: self.progress(before + done))
        finally:  # an interruption leaves what was done
            self.play.done += one.filled.count
            for copy in one.filled.copies:
                self.play.know(copy.pod.uid, copy.pod.namespace, copy.pod.name, act.pod.name)


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
        return f"did you mean {near!r}?"
    return f"so far there are {', '.join(names[:8])}" if names else "none has come so far"


def _error(step: Timed, message: str, advice: str) -> InputError:
    if step.part is None:
        return InputError(message, advice=advice)
    return step.part.error(message, advice)
