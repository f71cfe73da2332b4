"""What-if: a scenario played on a node, beside another one, as a trace; and how many more pods fit."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from numawise.apps.scheduler.capacity import shape_pod
from numawise.apps.simulate.explained_step import ExplainedStep, explained_step
from numawise.apps.simulate.playing import Played
from numawise.apps.simulate.recording import trace_of
from numawise.apps.simulate.sides import COLUMNS, SideNode, compared_sides, fits, played_side, shapes_of
from numawise.codec.tracefile import encode_line
from numawise.codec.web.body import to_bytes
from numawise.codec.web.given import NodeGiven
from numawise.codec.web.scenario import (
    FitsGiven,
    OtherSide,
    ScenarioGiven,
    StepTryGiven,
    StepWhyGiven,
    TraceGiven,
)
from numawise.errors import InputError, KubeletRefused
from numawise.explain.tried import tried
from numawise.inputs.spec import NodeInput, start_node
from numawise.node.node import SimulatedNode
from numawise.render.held_map import map_data, map_of_node, walk_devices
from numawise.results.machine_map import MapForm
from numawise.results.scenario import ComparedSides, FitsAnswer, ScenarioAnswer
from numawise.results.why_page import TriedPage, WhyPage
from numawise.values import replace
from numawise.web.desk import MAP, Desk, check_simulated
from numawise.web.operations import POST, Asked, Operation, Reply
from numawise.web.page_words import all_said_here, in_body
from numawise.web.why_parts import explanation_said, tried_page

STEPS, COMPARE = "steps", "$.compare"
THIS, OTHER = "this kubelet", "the other one"
JSON_LINES = "application/jsonl"
Steps = Sequence[Mapping[str, Any] | str]


def scenario(desk: Desk, asked: Asked) -> ScenarioAnswer:
    """Play a scenario, and the same on the other side."""
    body: ScenarioGiven = asked.body
    played, node = _played(desk, body.node, body.steps)
    at = played.number(body.at)
    side = played_side(played, _side(node, THIS), at, body.width)
    compared = None
    if body.compare is not None:
        compared = _compared(desk, body, body.compare, (played, side.name), at)
    return ScenarioAnswer(at, COLUMNS, side, compared)


def why_step(desk: Desk, asked: Asked) -> WhyPage:
    """Why a pod of a scenario was let in or not, as ``why`` explains it."""
    body: StepWhyGiven = asked.body
    found, played, node = _explained(desk, body)
    return WhyPage(
        explanation=explanation_said(found.explanation),
        tries=len(found.proven),
        before=_map(played, node, found.before, body.width),
        after=_map(played, node, found.after, body.width) if found.after is not None else None,
        drawn=walk_devices(node.hardware, found.explanation),
    )


def try_at_step(desk: Desk, asked: Asked) -> TriedPage:
    """What a suggestion for a pod of a scenario leads to."""
    body: StepTryGiven = asked.body
    found, played, node = _explained(desk, body)
    one = tried(found.proven, body.suggestion, found.before)
    after = _map(played, node, one.after, body.width, tuple(found.before.state.active))
    return tried_page(one, after, node.hardware)


def _explained(desk: Desk, body: StepWhyGiven) -> tuple[ExplainedStep, Played, NodeInput]:
    played, node = _played(desk, body.node, body.steps)
    return explained_step(played, body.at, body.pod), played, node


def _map(
    played: Played, source: NodeInput, node: SimulatedNode, width: int, before: tuple[str, ...] = ()
) -> MapForm:
    """The map of a node; ``before``: the pods of the map beside it, whose marks stay."""
    run = played.moments[-1].stage.run
    drawn = map_of_node(node, run.names, run.owners, source.hardware)
    return map_data(replace(drawn, before=before), width)


def trace(desk: Desk, asked: Asked) -> Reply:
    """A scenario as a file for ``numawise replay``."""
    body: TraceGiven = asked.body
    played, node = _played(desk, body.node, body.steps)
    with _in_steps():
        found = trace_of(played, node.configuration.raw(node.version), body.name)
    return Reply(encode_line({"scenario": found}).encode(), JSON_LINES, "scenario.jsonl")


def fitting(desk: Desk, asked: Asked) -> FitsAnswer:
    """How many more pods of some shapes fit."""
    body: FitsGiven = asked.body
    played, _ = _played(desk, body.node, body.steps)
    at = played.number(body.at)
    shapes = []
    for number, text in enumerate(body.shapes):
        try:
            shapes.append((text, shape_pod(text)))
        except InputError as problem:
            raise InputError(problem.message, field=f"$.shapes[{number}]", advice=problem.advice) from None
    return FitsAnswer(at, fits(played, at, shapes or shapes_of(played), body.most))


def _played(desk: Desk, given: NodeGiven, steps: Steps) -> tuple[Played, NodeInput]:
    node = check_simulated(desk.node(given))  # what is missing is said before anything is played
    version = desk.news.versions.get(MAP, 0) if given.served else 0
    key = hashlib.blake2b(to_bytes(given) + str(version).encode(), digest_size=32).digest()
    with _in_steps():
        return desk.player.play(key, lambda: start_node(node), steps), node


def _compared(
    desk: Desk, body: ScenarioGiven, other: OtherSide, ours: tuple[Played, str], at: int
) -> ComparedSides:
    given = NodeGiven(
        served=body.node.served,
        machine=body.node.machine,
        config=other.config or body.node.config,
        release=other.release or body.node.release,
        files=body.node.files,
        match_devices=body.node.match_devices,
    )
    try:
        with in_body(type(other), COMPARE):
            played, node = _played(desk, given, body.steps)
    except KubeletRefused as refusal:
        words = "the other kubelet does not start"
        return ComparedSides(None, (), words, same=False, refusal=refusal.reason)
    return compared_sides(ours, (played, played_side(played, _side(node, OTHER), at, body.width)))


def _side(node: NodeInput, name: str) -> SideNode:
    return SideNode(name, node.hardware, all_said_here(node.remarks_of_start))


@contextmanager
def _in_steps() -> Iterator[None]:
    """Errors of a step name it as a member of the body, those of a text inside it also its line."""
    try:
        yield
    except KubeletRefused:
        raise
    except InputError as problem:
        place, _, _ = problem.file.partition(":")
        if not place.startswith(STEPS):
            raise
        inner = f"{problem.field}: " if problem.field else ""
        raise InputError(
            f"{inner}{problem.message}", line=problem.line, field=place, advice=problem.advice
        ) from None


OPERATIONS = (
    Operation(
        POST,
        "/scenario",
        "scenario",
        "Play a scenario: what comes of every step, who holds what then, and what differs on another side.",
        scenario,
        ScenarioAnswer,
        body=ScenarioGiven,
        part="what-if",
    ),
    Operation(
        POST,
        "/scenario/why",
        "scenarioWhy",
        "Why a pod of a scenario was let in or not, step by step, on the node as it was then.",
        why_step,
        WhyPage,
        body=StepWhyGiven,
        part="what-if",
    ),
    Operation(
        POST,
        "/scenario/why/try",
        "scenarioWhyTry",
        "What a suggestion for a pod of a scenario leads to, on the node as it was then.",
        try_at_step,
        TriedPage,
        body=StepTryGiven,
        part="what-if",
    ),
    Operation(
        POST,
        "/scenario/trace",
        "scenarioTrace",
        "A scenario as a trace, the file that numawise replay reads.",
        trace,
        body=TraceGiven,
        media=JSON_LINES,
        part="what-if",
    ),
    Operation(
        POST,
        "/fits",
        "fits",
        "How many more pods of each shape would be let in at a step of a scenario.",
        fitting,
        FitsAnswer,
        body=FitsGiven,
        part="what-if",
    ),
)
