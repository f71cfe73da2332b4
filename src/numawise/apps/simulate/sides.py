"""A played scenario as the page gets it, on one node or side by side on two, and how many more pods fit.

Rules kept here:

1. Both sides get the same steps.  A kubelet that does not start is a side of its own: it has no steps.
2. Pods differ as ``simulate --compare`` says; of each it is said what is otherwise.
3. How many more fit is counted as ``simulate --fill`` does it, each shape on the node as it is at that step;
   for ``PATIENCE`` seconds at most.
"""

import time
from collections.abc import Callable, Sequence

from numawise.apps.simulate.playing import PATIENCE, Played
from numawise.apps.simulate.scenario import fill
from numawise.compare.releases import compare_runs, outcome_changes
from numawise.errors import InputError
from numawise.machine.hardware import Hardware
from numawise.render.comparison import NOT_REACHED, change_text, config_summary
from numawise.render.held_map import map_data, map_of_node
from numawise.render.simulation import COLUMNS, fill_lines, summary
from numawise.render.words import clean
from numawise.request.defaults import RawPod
from numawise.results.comparison import HINTS, PodPair
from numawise.results.scenario import (
    MOST_FILLED,
    ComparedSides,
    PlayedSide,
    PodDifference,
    ScenarioDevice,
    ScenarioDevices,
    ShapeFit,
)
from numawise.results.simulation import LIMIT, Add, Filled
from numawise.rules.model import KubeletConfig
from numawise.rules.versions import shown
from numawise.values import dataclass, replace

MOST_SHAPES = 12
HEALTHY, UNHEALTHY, GONE = "healthy", "unhealthy", "gone"
__all__ = ["COLUMNS", "SideNode", "compared_sides", "fits", "played_side", "shapes_of"]


@dataclass(frozen=True, slots=True)
class SideNode:
    """What is known of a node beside its kubelet."""

    name: str
    hardware: Hardware
    remarks: tuple[str, ...] = ()


def played_side(played: Played, node: SideNode, at: int, width: int) -> PlayedSide:
    """A scenario on one node; ``at``: the step whose map is drawn, ``width``: in pixels, 0 for no map."""
    moment = played.moments[played.number(at)]
    run = moment.stage.run
    drawn = None
    if width:
        source = map_of_node(moment.node, run.names, run.owners, node.hardware)
        drawn = map_data(source, width, tables=False)
    return PlayedSide(
        name=node.name,
        release=shown(moment.node.version),
        policies=_policies(moment.node.config),
        steps=tuple(one.words for one in played.moments if one.words is not None),
        summary=summary(played.run()),
        ended=played.moments[-1].ended,
        map=drawn,
        devices=tuple(_devices(played, at)),
        remarks=node.remarks,
    )


def _policies(config: KubeletConfig) -> tuple[str, ...]:
    return (
        f"{config.topology_manager_policy}, by {config.topology_manager_scope}",
        f"CPUs {config.cpu_manager_policy}",
        f"memory {config.memory_manager_policy}",
    )


def _devices(played: Played, at: int) -> list[ScenarioDevices]:
    stage = played.moments[played.number(at)].stage
    found = []
    for every in stage.node.machine.plugins:
        listed = {device.id: device for device in stage.plugins[every.resource].devices}
        rows = []
        for device in every.devices:
            now = listed.get(device.id)
            health = GONE if now is None else HEALTHY if now.healthy else UNHEALTHY
            rows.append(ScenarioDevice(clean(device.id), device.numa or (), health))
        found.append(ScenarioDevices(every.resource, tuple(rows)))
    return found


def compared_sides(first: tuple[Played, str], second: tuple[Played, PlayedSide]) -> ComparedSides:
    """The second scenario beside the first."""
    (ours, name), (theirs, side) = first, second
    compared = compare_runs(ours.run(), theirs.run(), (name, side.name))
    steps = {
        came.pod.uid: result.step.number
        for played in (theirs, ours)
        for moment in played.moments
        for result in moment.results
        for came in result.pods
    }
    differences = tuple(
        PodDifference(pair.uid, clean(pair.name), steps[pair.uid], tuple(map(clean, _words(pair))))
        for pair in compared.pods
        if pair.differs
    )
    return ComparedSides(side, differences, clean(config_summary(compared)), compared.same)


def _words(pair: PodPair) -> list[str]:
    """Rule 2."""
    if pair.first is None or pair.second is None:
        return [NOT_REACHED]
    changes = [one for one in outcome_changes(pair.first, pair.second) if one.kind != HINTS]
    return [change_text(one) for one in changes]


# --- how many more fit ----------------------------------------------------------------------------


def shapes_of(played: Played) -> list[tuple[str, RawPod]]:
    """The shapes of the pods that came, each once, by name."""
    found: list[tuple[str, RawPod]] = []
    for moment in played.moments:
        for result in moment.results:
            act = result.step.act
            for pod in act.pods if isinstance(act, Add) else ():
                like = (pod.containers, pod.requests, pod.limits)
                if like not in [(one.containers, one.requests, one.limits) for _, one in found]:
                    found.append((pod.name, pod))
                if len(found) == MOST_SHAPES:
                    return found
    return found


def fits(
    played: Played,
    at: int,
    shapes: Sequence[tuple[str, RawPod]],
    most: int,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[ShapeFit, ...]:
    """How many more pods of each shape fit at a step (rule 3)."""
    moment = played.moments[played.number(at)]
    answers: list[ShapeFit] = []
    latest = clock() + PATIENCE

    def look(_: int) -> None:
        if clock() > latest:
            what = f"take longer than {PATIENCE:.0f} seconds: {len(answers)} of {len(shapes)} are counted"
            raise InputError(what, field="shapes", advice="give fewer, or count to a smaller number")

    for name, pod in shapes:
        filled = Filled(replace(pod, name=clean(name)), moment.node.machine)
        fill(moment.stage.copy().node, filled, min(most, MOST_FILLED), look)
        lines = tuple(clean(line) for line in fill_lines(filled))
        answers.append(ShapeFit(clean(name), filled.count, filled.stop.by == LIMIT, lines))
    return tuple(answers)
