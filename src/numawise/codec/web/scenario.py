"""What a page asks about scenarios and configurations."""

from typing import Annotated, Any

import msgspec

from numawise.codec.web.body import WebBody
from numawise.codec.web.drawn import WIDEST, Width
from numawise.codec.web.given import NodeGiven, Release, Text
from numawise.results.scenario import MOST_FILLED, MOST_STEPS

MOST_SHAPES = 50

Step = dict[str, Any] | str
Steps = Annotated[tuple[Step, ...], msgspec.Meta(max_length=MOST_STEPS)]
At = Annotated[int, msgspec.Meta(ge=0, le=MOST_STEPS)]
Shape = Annotated[str, msgspec.Meta(max_length=500)]
Name = Annotated[str, msgspec.Meta(max_length=100)]


class OtherSide(WebBody, frozen=True):
    """What is otherwise on the other side; what is left out is the same."""

    config: Text = ""
    """Another kubelet configuration, as text."""
    release: Release = ""


class ScenarioGiven(WebBody, frozen=True):
    """A scenario: a node, and what happens to it, as in a file of ``simulate --steps``."""

    node: NodeGiven
    steps: Steps = ()
    at: At | None = None
    """The step whose map is asked for; 0: before all of them, null: after the last."""
    width: Annotated[int, msgspec.Meta(ge=0, le=WIDEST)] = 1000
    """Of the map, in pixels; 0: no map."""
    compare: OtherSide | None = None


class StepWhyGiven(WebBody, frozen=True):
    """A pod of a scenario about which it is asked why."""

    node: NodeGiven
    at: Annotated[int, msgspec.Meta(ge=1, le=MOST_STEPS)]
    """The step at which it came."""
    steps: Steps = ()
    pod: Annotated[str, msgspec.Meta(max_length=600)] = ""
    """Its uid; "": the first pod of the step."""
    width: Width = 1000


class StepTryGiven(StepWhyGiven, frozen=True):
    """A suggestion for such a pod that is to be tried."""

    suggestion: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 0
    """Its number, from 0."""


class TraceGiven(WebBody, frozen=True):
    """A scenario that is to become a trace."""

    node: NodeGiven
    steps: Steps = ()
    name: Name = "scenario"


class FitsGiven(WebBody, frozen=True):
    """Shapes of which it is asked how many more fit at a step of a scenario."""

    node: NodeGiven
    steps: Steps = ()
    at: At | None = None
    shapes: Annotated[tuple[Shape, ...], msgspec.Meta(max_length=MOST_SHAPES)] = ()
    """Such as ``cpu=4,memory=8Gi,nvidia.com/gpu=1``; empty: those of the pods that came."""
    most: Annotated[int, msgspec.Meta(ge=1, le=MOST_FILLED)] = 200


class SettingChange(WebBody, frozen=True):
    """One setting of a configuration that is to change."""

    path: Annotated[
        tuple[Annotated[str, msgspec.Meta(max_length=253)], ...], msgspec.Meta(min_length=1, max_length=4)
    ]
    value: Any = None
    """Its new value; null takes the setting out."""


class ConfigGiven(WebBody, frozen=True):
    """A kubelet configuration, and what is to change of it."""

    text: Text = ""
    release: Release = ""
    node: NodeGiven | None = None
    """Whose machine it is for; null: what only a machine can refuse is not said."""
    changes: Annotated[tuple[SettingChange, ...], msgspec.Meta(max_length=50)] = ()
