"""Why a pod is refused or admitted, step by step, and what a suggestion leads to."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import cast

from numawise.apps.logs.check import checked, load_log_node
from numawise.apps.logs.groups import LogFilter
from numawise.apps.logs.read import Source, is_log, read_log
from numawise.apps.why.chosen import (
    ChosenPod,
    choose_pod,
    pod_names,
    pods_of,
    try_suggestion,
)
from numawise.apps.why.pasted import explain_pasted_objects
from numawise.apps.why.queued import queued_pod
from numawise.codec.bundle.archive import is_bundle
from numawise.codec.web.given import FileGiven, NodeGiven
from numawise.codec.web.why import WhyAsked, WhyTried
from numawise.errors import InputError
from numawise.explain.case import admitted_node
from numawise.inputs.recognise import recognised
from numawise.inputs.spec import NodeInput, NodeSpec
from numawise.node.node import SimulatedNode
from numawise.render.held_map import map_data, map_of_node, walk_devices
from numawise.results.forms_why import KubeletLogForm
from numawise.results.log_data import report_data
from numawise.results.machine_map import MapForm
from numawise.results.scenario import OpenedFile, OpenedNode, OpenedScenario
from numawise.results.why_page import TriedPage, WhyPage
from numawise.values import dataclass, replace
from numawise.web.desk import Desk, check_simulated
from numawise.web.operations import POST, Asked, Operation
from numawise.web.page_words import all_said_here
from numawise.web.why_parts import explanation_said, tried_page

TEXT_NAME = "pod.yaml"


@dataclass(frozen=True, slots=True)
class WhyFiles:
    """What was given, sorted out: the node, pods, logs."""

    node: NodeInput
    given: NodeGiven
    """The same as it was named, with those of the files that are parts of it."""
    pods: tuple[str, ...]
    logs: tuple[str, ...]
    remarks: tuple[str, ...]


def why(desk: Desk, asked: Asked) -> WhyPage:
    """Explain a pod, what was pasted, or a log."""
    body: WhyAsked = asked.body
    if body == WhyAsked(width=body.width) and (missing := _nothing_to_say(desk)):
        return WhyPage(remarks=(missing,))
    with _sorted(desk, body) as given:
        if given.logs:
            return WhyPage(log=_log(given), remarks=all_said_here(given.remarks))
        if given.pods and not _simulated(given.node):
            pasted = explain_pasted_objects(given.pods, given.node)
            if pasted is not None:
                others = tuple(map(explanation_said, pasted.found))
                return WhyPage(others=others, remarks=all_said_here((*given.remarks, *pasted.remarks)))
        found = choose_pod(check_simulated(given.node), given.pods, body.pod, body.number)
        return _page(given, found, body.width)


def try_it(desk: Desk, asked: Asked) -> TriedPage:
    """Show the node after a suggestion."""
    body: WhyTried = asked.body
    with _simulated_files(desk, body) as given:
        tried = try_suggestion(given.node, given.pods, body.suggestion, body.pod, body.number)
        return tried_page(tried, _map(given.node, tried.after, body.width, tried.before), given.node.hardware)


def scenario_of(desk: Desk, asked: Asked) -> OpenedScenario:
    """The question as a scenario, whose last step is the pod."""
    body: WhyAsked = asked.body
    with _simulated_files(desk, body) as given:
        queued = queued_pod(given.node, given.pods, body.pod, body.number)
    node = given.given
    files = tuple(OpenedFile(one.name, one.text, one.base64) for one in node.files)
    opened = OpenedNode(node.served, node.machine, node.config, node.release, files)
    return OpenedScenario(queued.name, opened, queued.steps)


@contextmanager
def _simulated_files(desk: Desk, body: WhyAsked) -> Iterator[WhyFiles]:
    """What was given, where it is enough to ask a kubelet."""
    with _sorted(desk, body) as given:
        if given.logs:
            raise InputError(
                "a log cannot be simulated", field="$.files", advice="give the machine and its configuration"
            )
        check_simulated(given.node)
        yield given


@contextmanager
def _sorted(desk: Desk, body: WhyAsked) -> Iterator[WhyFiles]:
    """Every file in its place; the node with those that are parts of it."""
    files = list(body.files)
    if body.text.strip():
        files.append(FileGiven(name=TEXT_NAME, text=body.text))
    with desk.files(files) as paths:
        logs = tuple(path for path in paths if not is_bundle(path) and is_log(path))
        rest = [path for path in paths if path not in logs]
        known = recognised(NodeSpec(), rest)
        parts = [
            file for file, path in zip(files, paths, strict=True) if path in rest and path not in known.pods
        ]
        whole = bool(known.node.bundle or known.node.machine or logs) or desk.served.spec is None
        named = _with_parts(body.node, parts, whole=whole)
        yield WhyFiles(desk.node(named), named, known.pods, logs, known.remarks)


def _nothing_to_say(desk: Desk) -> str:
    """Why there is nothing to explain of what is served, where nothing else is named; '' where there is."""
    if desk.served.spec is None:
        return "no node is served here"
    node = desk.served_node()
    if not _simulated(node):
        return "no kubelet configuration is known of what is served here"
    return "" if pods_of(node) else "no pod is known of the node that is served here"


def _simulated(node: NodeInput) -> bool:
    """Whether enough is known to ask its kubelet."""
    return node.bundle is not None or (node.machine_input is not None and node.has_config)


def _with_parts(given: NodeGiven, parts: Sequence[FileGiven], *, whole: bool) -> NodeGiven:
    """The node that is named, with files laid over it.

    ``whole``: they take its place, being a machine or a bundle; a log is of another node than the served one.
    """
    named = given.machine or given.config or given.files
    return NodeGiven(
        served=not whole and (given.served or not named),
        machine=given.machine,
        config=given.config,
        release=given.release,
        files=(*given.files, *parts),
        match_devices=given.match_devices,
    )


def _log(given: WhyFiles) -> KubeletLogForm:
    beside = load_log_node(given.node, given.pods)
    report = checked(
        read_log(Source(given.logs), LogFilter("", None, True), beside.given(None, None)), beside
    )
    data = report_data(report)
    return cast("KubeletLogForm", {name: data[name] for name in KubeletLogForm.__annotations__})


def _page(given: WhyFiles, found: ChosenPod, width: int) -> WhyPage:
    explained = found.explained
    case, resize = explained.case, explained.resize
    before = case.node if case is not None else resize.before if resize is not None else None
    after = resize.after if resize is not None else None
    if case is not None and explained.explanation.admitted:
        after = admitted_node(case)
    return WhyPage(
        pods=found.pods,
        chosen=found.chosen,
        explanation=explanation_said(explained.explanation),
        tries=found.tries,
        before=_map(given.node, before, width) if before is not None else None,
        after=_map(given.node, after, width, before) if after is not None else None,
        drawn=walk_devices(given.node.hardware, explained.explanation),
        remarks=all_said_here((*given.remarks, *found.remarks)),
    )


def _map(source: NodeInput, node: SimulatedNode, width: int, before: SimulatedNode | None = None) -> MapForm:
    """The map of a node; ``before``: the node on the map beside it, whose marks stay."""
    drawn = map_of_node(node, pod_names(node), hardware=source.hardware)
    known = tuple(before.state.active) if before is not None else ()
    return map_data(replace(drawn, before=known), width)


OPERATIONS = (
    Operation(
        POST,
        "/why",
        "why",
        "Why a pod is refused or admitted, step by step; of several pods the verdicts; what a log says.",
        why,
        WhyPage,
        body=WhyAsked,
        part="why",
    ),
    Operation(
        POST,
        "/why/try",
        "whyTry",
        "What a suggestion leads to: the pod explained after it, and the node then.",
        try_it,
        TriedPage,
        body=WhyTried,
        part="why",
    ),
    Operation(
        POST,
        "/why/scenario",
        "whyScenario",
        "The question as a scenario to go on from: the node, the pods up to the one that is asked about.",
        scenario_of,
        OpenedScenario,
        body=WhyAsked,
        part="why",
    ),
)
