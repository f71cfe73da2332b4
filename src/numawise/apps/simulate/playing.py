"""Scenarios played again and again: what is known of their first steps is kept, so that one more costs one.

Rules kept here:

1. A step is what a line of a scenario file is (``codec.steps``); files cannot be named.
2. After every step all is kept that it takes to go on: the node, who is called what, who has come.  It is
   found again by the content of the node and of all steps so far, and nothing that happens later touches it.
3. Moments are kept up to ``MOST_KEPT``; one with many pods counts as several.  Of a scenario that is played
   the first steps are the last to be dropped.
4. A scenario that takes longer than ``PATIENCE`` is ended; what was played is kept, so asking again goes on.
5. After the kubelet has gone for good no step happens; a step that cannot be read, or that means nothing on
   this node, is an error, and those before it stay known.
"""

import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any

from numawise.apps.simulate.scenario import PodNames, Stage, arriving
from numawise.apps.simulate.step_words import step_words
from numawise.codec.document import Document
from numawise.codec.steps import Beside, Timed, decode_step
from numawise.errors import InputError
from numawise.node.node import SimulatedNode
from numawise.results.scenario import MOST_FILLED, MOST_STEPS, PlayedStep
from numawise.results.simulation import ScenarioRun, StepResult
from numawise.values import dataclass, replace

MOST_KEPT = 600
MOST_ARRIVING = 2000
LIGHT_PODS, LIGHT_CONTAINERS = 1000, 20
"""Pods so far, and containers of the step itself, of a moment that counts as one."""
PATIENCE = 20.0
"""Seconds that one question may take."""
STEPS = "steps"


@dataclass(frozen=True, slots=True)
class Moment:
    """A node after a step; nobody changes it."""

    stage: Stage
    names: PodNames
    results: tuple[StepResult, ...] = ()
    """What came of the step: one result for each of its acts."""
    words: PlayedStep | None = None
    """The same in words; None before the first step."""
    arrived: int = 0
    """Pods that should have come by now."""
    at: float | None = None

    @property
    def weight(self) -> int:
        """How much it counts among those that are kept (rule 3)."""
        came = sum(
            len(one.pod.containers)
            for result in self.results
            for one in (*result.pods, *result.again, *(result.filled.copies if result.filled else ()))
        )
        return 1 + self.stage.run.done // LIGHT_PODS + came // LIGHT_CONTAINERS

    @property
    def node(self) -> SimulatedNode:
        """The kubelet as it is then."""
        return self.stage.node

    @property
    def ended(self) -> bool:
        """The kubelet is gone for good."""
        return self.stage.run.ended


@dataclass(frozen=True, slots=True)
class Played:
    """A scenario, moment by moment; the first is before all steps."""

    moments: tuple[Moment, ...]

    def number(self, at: int | None) -> int:
        """The step that is meant, as far as it came; None: the last."""
        last = len(self.moments) - 1
        return last if at is None else min(at, last)

    def run(self, until: int | None = None) -> ScenarioRun:
        """All that happened up to a step, as ``simulate --steps`` has it."""
        moments = self.moments if until is None else self.moments[: until + 1]
        last = moments[-1]
        return replace(
            last.stage.run,
            state=last.node.state,
            rules=last.node.rules,
            results=[result for moment in moments for result in moment.results],
            total=last.arrived,
        )


class ScenarioPlayer:
    """Plays scenarios, and keeps their moments (rules 2 and 3)."""

    def __init__(self, most: int = MOST_KEPT, clock: Callable[[], float] = time.monotonic) -> None:
        self.most, self.clock = most, clock
        self._kept: OrderedDict[bytes, Moment] = OrderedDict()
        self._weight = 0
        self._lock = Lock()

    def play(
        self, node: bytes, started: Callable[[], SimulatedNode], steps: Sequence[Mapping[str, Any] | str]
    ) -> Played:
        """Let steps happen to a node; ``node``: what it is known by, ``started``: makes it."""
        if len(steps) > MOST_STEPS:
            raise InputError(
                f"there are {len(steps)} steps", field=STEPS, advice=f"a scenario has {MOST_STEPS} at most"
            )
        keys = _keys(node, steps)
        moments = self._known(keys)
        if not moments:
            moments = [Moment(Stage.of(started(), most=MOST_FILLED), PodNames())]
            self._keep(keys, moments)
        document = Document({STEPS: list(steps)})
        latest = self.clock() + PATIENCE
        try:
            while len(moments) < len(keys) and not moments[-1].ended:
                if self.clock() > latest:
                    what = f"takes longer than {PATIENCE:.0f} seconds: {len(moments) - 1} steps are done"
                    raise InputError(what, field=STEPS, advice="ask again to go on from there")
                moments.append(_next(moments[-1], document, len(moments)))
        finally:
            self._keep(keys, moments)
        return Played(tuple(moments))

    def _known(self, keys: Sequence[bytes]) -> list[Moment]:
        with self._lock:
            moments = []
            for key in keys:
                moment = self._kept.get(key)
                if moment is None:
                    break
                moments.append(moment)
            return moments

    def _keep(self, keys: Sequence[bytes], moments: Sequence[Moment]) -> None:
        with self._lock:
            for key, moment in reversed(list(zip(keys, moments, strict=False))):
                if key not in self._kept:
                    self._kept[key] = moment
                    self._weight += moment.weight
                self._kept.move_to_end(key)
            while self._weight > self.most:
                _, oldest = self._kept.popitem(last=False)
                self._weight -= oldest.weight


def _keys(node: bytes, steps: Sequence[object]) -> list[bytes]:
    """What a node is known by before the first step, and after each."""
    keys = [node]
    for number, step in enumerate(steps):
        try:
            text = json.dumps(step, separators=(",", ":"))
        except RecursionError:
            raise InputError(
                "is nested too deeply", field=f"{STEPS}[{number}]", advice="give an ordinary step"
            ) from None
        keys.append(hashlib.blake2b(keys[-1] + text.encode(), digest_size=32).digest())
    return keys


def _next(before: Moment, document: Document, number: int) -> Moment:
    part = document.root.at(STEPS, number - 1)
    stage, names = before.stage.copy(), before.names.copy()
    acts: list[Timed] = [names.told(act) for act in decode_step(part, number, before.at, Beside())]
    arrived = before.arrived + arriving(acts)
    if stage.run.done + arriving(acts) > MOST_ARRIVING:
        raise part.error(f"with it more than {MOST_ARRIVING:,} pods have come", "let fewer come")
    for act in acts:
        if not stage.run.ended:
            stage.act(act)
    results = tuple(stage.run.results)
    stage.run.results = []
    words = step_words(stage.node, results, stage.run)
    return Moment(stage, names, results, words, arrived, acts[-1].at)
