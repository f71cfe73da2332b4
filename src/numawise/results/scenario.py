"""A scenario as a page shows it: what came of every step, who holds what at one of them, what differs."""

from collections.abc import Mapping
from typing import Any

from numawise.results.machine_map import MapForm
from numawise.results.plain import optional
from numawise.values import dataclass

MOST_STEPS, MOST_FILLED = 500, 500
"""Steps of a scenario, and pods of one shape that are let in while it is counted how many fit."""
DONE, STARTS_NOT, LOST = "done", "does not start", "lost"
"""Verdicts on steps beside those on pods."""


@dataclass(frozen=True, slots=True)
class StepPod:
    """What a step did to one pod."""

    uid: str
    name: str
    """With its namespace, where that is not ``default``."""
    verdict: str
    """``admitted``, ``rejected``, ``crashed``, ``not known``, ``preempted``, ``lost``, or what else
    ``simulate`` says in its table."""
    sentence: str = ""
    rows: tuple[tuple[str, ...], ...] = ()
    """Its containers as ``simulate`` prints them; the columns are those of the answer."""


@dataclass(frozen=True, slots=True)
class PlayedStep:
    """What came of one step."""

    number: int
    op: str
    """The word of the step: ``add``, ``remove``, ``restart``, …"""
    title: str
    """What happened, in a few words."""
    verdict: str
    """``admitted``, ``rejected``, … of its pods, the worst of them; ``done`` where it has none."""
    at: str = ""
    """When it happens, if it says: ``1h30m``."""
    pods: tuple[StepPod, ...] = ()
    notes: tuple[str, ...] = ()
    """What ``simulate`` notes below its table."""


@dataclass(frozen=True, slots=True)
class ScenarioDevice:
    """A device, as its plugin lists it."""

    id: str
    numa: tuple[int, ...]
    health: str
    """``healthy``, ``unhealthy`` or ``gone``."""


@dataclass(frozen=True, slots=True)
class ScenarioDevices:
    """The devices of one resource."""

    resource: str
    devices: tuple[ScenarioDevice, ...]


@dataclass(frozen=True, slots=True)
class PlayedSide:
    """A scenario on one node."""

    name: str
    """What the side is called in sentences."""
    release: str
    policies: tuple[str, ...]
    """``single-numa-node, by pod``, ``CPUs static``, ``memory Static``: of the kubelet at that step."""
    steps: tuple[PlayedStep, ...]
    summary: str
    """``4 of 6 pods admitted``."""
    ended: bool
    """The kubelet is gone for good: no step after the last one here."""
    map: MapForm | None
    """Who holds what at the step that was asked for; null: no map was asked for."""
    devices: tuple[ScenarioDevices, ...] = ()
    """At that step."""
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PodDifference:
    """A pod that has another outcome on the other side."""

    uid: str
    name: str
    step: int
    words: tuple[str, ...]
    """What is otherwise: ``admitted``, ``other CPUs: 2-5 instead of 8-11``, …"""


@dataclass(frozen=True, slots=True)
class ComparedSides:
    """The same scenario on another node."""

    side: PlayedSide | None
    """Null: its kubelet does not start."""
    differences: tuple[PodDifference, ...]
    summary: str
    """``2 of 6 pods differ: …``."""
    same: bool
    refusal: str = ""
    """How the other kubelet refuses to start, in its own words."""


@dataclass(frozen=True, slots=True)
class ScenarioAnswer:
    """A scenario, played."""

    at: int
    """The step whose map is shown; 0: before all of them."""
    columns: tuple[str, ...]
    """Of the rows of pods."""
    side: PlayedSide
    compared: ComparedSides | None = None


@dataclass(frozen=True, slots=True)
class ShapeFit:
    """How many more pods of a shape would be let in."""

    shape: str
    count: int
    more: bool
    """Counting was ended there; it may be more."""
    lines: tuple[str, ...]
    """Where they would go, and what ends it, as ``simulate --fill`` says it."""


@dataclass(frozen=True, slots=True)
class FitsAnswer:
    """How many more fit, each shape as if no other came."""

    at: int
    shapes: tuple[ShapeFit, ...]


# --- a scenario to open -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """A file as it was dropped: text, or base64 where it is none."""

    name: str
    text: str | None = optional(None)
    base64: str | None = optional(None)


@dataclass(frozen=True, slots=True)
class OpenedNode:
    """The node of a scenario, as requests name it."""

    served: bool = optional(default=False)
    machine: str = optional("")
    config: str = optional("")
    release: str = optional("")
    files: tuple[OpenedFile, ...] = optional(())


@dataclass(frozen=True, slots=True)
class OpenedScenario:
    """A scenario to go on from: what POST scenario takes."""

    name: str
    node: OpenedNode
    steps: tuple[Mapping[str, Any], ...]
