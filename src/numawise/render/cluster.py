"""The choice of a node in words: a trace under several choices side by side, and a sentence for each node."""

from collections import Counter

from numawise.errors import one_line
from numawise.render.refusal import lacking_text
from numawise.render.simulation import Row
from numawise.render.terminal import DIM, GREEN, RED
from numawise.render.words import both, counted, percent
from numawise.results.cluster import (
    ASKED,
    LEAST,
    MOST,
    OURS,
    POOL,
    ChoiceRun,
    ClusterRun,
    PlacesReport,
)
from numawise.results.explanation import Explanation
from numawise.results.plain import document

COLUMNS = ("CHOICE", "SHAPE", "PODS", "REFUSED", "MEDIAN", "MEAN", "95 %", "LONGEST", "ALIGNED")
MEANING = {
    LEAST: "the emptiest node by sums, as the stock scheduler chooses by default",
    MOST: "the fullest node by sums, as the stock scheduler chooses with MostAllocated",
    ASKED: "the fullest node whose kubelet would let the pod in",
    OURS: "the node where the pod is aligned and the least is lost for larger pods",
    POOL: "all nodes as one, without NUMA nodes: what nobody can do away with by choosing nodes",
}


def cluster_rows(run: ClusterRun) -> list[Row]:
    """A row for each choice and shape."""
    rows: list[Row] = []
    for choice in run.choices:
        for number, waits in enumerate(choice.shapes):
            started = waits.started
            rows.append(
                [
                    choice.choice if not number else "",
                    waits.shape.name,
                    str(waits.pods) if started == waits.pods else (f"{started} of {waits.pods}", RED),
                    "-" if choice.choice == POOL else (str(waits.refusals), RED if waits.refusals else GREEN),
                    *(
                        (seconds_text(value), "" if value else DIM)
                        for value in (waits.median, waits.mean, waits.p95, waits.longest)
                    ),
                    "-" if waits.aligned is None or not started else percent(waits.aligned / started),
                ]
            )
    return rows


def seconds_text(seconds: float) -> str:
    """``1,819 s``; short times with a tenth."""
    return f"{seconds:,.0f} s" if seconds >= 10 or not seconds else f"{seconds:.1f} s"


def cluster_notes(run: ClusterRun) -> list[str]:
    """What the choices mean, and what happens to pods that are refused or wait."""
    lines = [f"{choice.choice}: {MEANING[choice.choice]}{_fragments(choice, run)}" for choice in run.choices]
    if any(choice.refusals for choice in run.choices):
        lines.append(f"a refused pod is made anew after {seconds_text(run.retry)}")
    if any(choice.choice == OURS for choice in run.choices):
        lines.append(
            f"numawise keeps a place for pods that have waited for {seconds_text(run.patience)} (--patience)"
        )
    for choice in run.choices:
        if choice.never:
            lines.append(f"{choice.choice}: {counted(choice.never, 'pod')} never started")
    return lines


def _fragments(choice: ChoiceRun, run: ClusterRun) -> str:
    if choice.fragmented is None or choice.choice == POOL:
        return ""
    return (
        f"; on average {percent(choice.fragmented)} of the free {run.unit} is of no use to the largest pods"
    )


def cluster_summary(run: ClusterRun) -> str:
    """``1,407 pods on 20 nodes: 544 refusals with least-allocated, 0 with numawise; …``."""
    refusals = [
        f"{choice.refusals:,} with {choice.choice}" for choice in run.choices if choice.choice != POOL
    ]
    text = f"{run.pods:,} pods on {counted(run.nodes, 'node')}"
    if refusals:
        text += f"; refusals: {both(refusals)}"
    waits = [f"{seconds_text(choice.mean_wait)} with {choice.choice}" for choice in run.choices]
    if waits:
        text += f"; mean wait of all pods: {both(waits)}"
    return text + ("; interrupted" if run.interrupted else "")


def cluster_data(run: ClusterRun) -> dict[str, object]:
    """All of it as plain data."""
    return document("ClusterSimulation", run)


PLACES_COLUMNS = ("SHAPE", "ASKS FOR", "MORE", "ON", "REFUSED FOR")
MOST_NAMED = 4


def places_rows(report: PlacesReport) -> list[Row]:
    """A row for each shape."""
    rows: list[Row] = []
    for places in report.shapes:
        there = [node for node in places.nodes if node.count]
        named = [f"{node.node} ({node.count}{'+' if node.more else ''})" for node in there[:MOST_NAMED]]
        more = f" and {counted(len(there) - MOST_NAMED, 'more node')}" if len(there) > MOST_NAMED else ""
        reasons = Counter(node.reason for node in places.nodes if node.reason)
        refused = ", ".join(f"{reason} ({many})" for reason, many in reasons.most_common(3))
        total = f"{places.total}{'+' if any(node.more for node in there) else ''}"
        where = (", ".join(named) + more) or "-"
        name = places.shape.name
        rows.append([places.name, name, (total, GREEN if places.total else RED), where, refused or "-"])
    return rows


def places_summary(report: PlacesReport, nodes: int) -> str:
    """``on 20 nodes, each shape as if no other came``."""
    of = " of pods that run" if report.learned else ""
    shapes = counted(len(report.shapes), "shape")
    return f"{shapes}{of} on {counted(nodes, 'node')}; each is counted as if no other came"


def places_data(report: PlacesReport) -> dict[str, object]:
    """All of it as plain data."""
    return document("Capacity", report)


LONGEST_REFUSAL, REFUSED_WORD = 200, "Rejected"


def refusal_sentence(explanation: Explanation) -> str:
    """Why a kubelet would not let a pod in: a short sentence for a list of nodes, its reason first."""
    text = explanation.answer
    if explanation.reason and text.startswith(REFUSED_WORD):
        text = explanation.reason + text.removeprefix(REFUSED_WORD)
    return shortened(text)


def refusal_group(explanation: Explanation) -> str:
    """Likewise without what differs from node to node, so that many nodes say it together."""
    reason = explanation.reason or explanation.verdict
    when = f", {explanation.outlook}" if explanation.outlook else ""
    return shortened(f"{reason}{when}: {lacking_text(explanation)}")


def shortened(text: str, longest: int = LONGEST_REFUSAL) -> str:
    """The beginning of a text, on one line."""
    text = one_line(text)
    return text if len(text) <= longest else f"{text[: longest - 1].rstrip(' ,;:(')}…"
