"""An explanation for the terminal: the answer, the hints, the merge, the rule, and what would help.

Rules kept here:

1. The answer comes first, in one sentence.
2. No line is wider than asked for.  A table that would be is turned, and finally printed line by line.
3. Colour only where the caller says so; every colour stands beside a word or a mark.
"""

from collections.abc import Iterator, Sequence

from numawise.render.merging import best_text, narrowing_text, whose
from numawise.render.pending import alike_line, named, pending_limits, pending_remarks, pending_ways
from numawise.render.picture.text import plain
from numawise.render.restart import COLUMNS as RESTART_COLUMNS
from numawise.render.restart import restart_rows, step_line
from numawise.render.terminal import BOLD, DIM, GREEN, RED, YELLOW, styled
from numawise.render.words import bytes_text, clean, columns, counted, manifest_lines, wrap
from numawise.results.explanation import (
    ADMITTED,
    BYTES,
    CPUS,
    CRASHED,
    DEFERRED,
    IMPOSSIBLE,
    INFEASIBLE,
    NO,
    NO_PREFERENCE,
    NOT_STARTED,
    POSSIBLE,
    PREFERRED,
    REJECTED,
    DecisionWalk,
    Explanation,
    NumaFree,
    ResourceHints,
    Round,
    Suggestion,
)
from numawise.results.pending import ClusterAnswer
from numawise.results.simulation import NOT_KNOWN
from numawise.sets import format_ids
from numawise.values import dataclass

NARROWEST = 40
MARKS = {PREFERRED: ("yes!", GREEN), POSSIBLE: ("yes", YELLOW), NO: ("no", RED)}
VERDICTS = {
    ADMITTED: GREEN,
    REJECTED: RED,
    CRASHED: RED,
    NOT_STARTED: RED,
    DEFERRED: YELLOW,
    INFEASIBLE: RED,
    NOT_KNOWN: YELLOW,
}
GAP = 2
FEW_NODES = 4
"""Up to so many NUMA nodes each has a column of its own; of more, equal ones share one."""


@dataclass(frozen=True, slots=True)
class HintCell:
    """A piece of a table."""

    text: str
    style: str = ""


def why_text(
    found: Sequence[Explanation],
    width: int,
    *,
    color: bool = False,
    ascii_only: bool = False,
    steps: bool = False,
) -> str:
    """All explanations, one below the other; ``steps``: each with the whole decision, step by step."""
    wide = max(NARROWEST, width)
    parts = [_Page(wide, color=color, steps=steps).drawn(one, alone=len(found) == 1) for one in found]
    drawn = "\n".join(parts)
    if len(found) > 1:
        admitted = sum(one.admitted for one in found)
        drawn += f"\n{admitted} of {len(found)} pods admitted\n"
    return plain(drawn) if ascii_only else drawn


class _Page:
    """One explanation on its way onto lines."""

    def __init__(self, width: int, *, color: bool, steps: bool = False) -> None:
        self.width = width
        self.steps = steps
        self.color = color
        self.lines: list[str] = []

    def paint(self, text: str, style: str) -> str:
        return styled(text, style) if self.color else text

    def drawn(self, one: Explanation, *, alone: bool) -> str:
        """The whole explanation; an admitted pod among others gets its answer and remarks alone."""
        style = VERDICTS.get(one.verdict, YELLOW)
        name = f"{one.namespace}/{one.name}" if one.namespace not in ("", "default") else one.name
        if one.name and one.verdict != NOT_STARTED:
            self.say(name, style=BOLD)
        first = len(self.lines)
        self.say(f"{one.answer}.")
        word, blank, rest = self.lines[first].partition(" ")
        self.lines[first] = self.paint(word, f"{BOLD};{style}") + blank + rest
        if one.cluster is not None:
            for remark in pending_remarks(one.cluster):
                self.say(f"{remark}.")
        for remark in one.remarks:
            self.say(f"{remark}.")
        if one.cluster is not None:
            self.cluster(one.cluster)
        if self.steps and one.walk is not None:
            self.walk(one.walk)
        if one.admitted and not alone and not one.findings:
            return "\n".join(self.lines) + "\n"
        if one.reason and one.verdict in (REJECTED, DEFERRED, INFEASIBLE):
            says = "says" if one.said else "would say"
            self.say(f"The kubelet {says}: {one.reason}: {one.message}", style=DIM)
        if one.round is not None and one.round.hints:
            self.hints(one.round)
            if not self.steps or one.walk is None:
                self.merge(one.round, one.rule)
        self.suggestions(one)
        self.manifests(one.manifests)
        for code, text in one.findings:
            self.lines.append("")
            self.say(f"{code}: {text}", style=YELLOW)
        return "\n".join(self.lines) + "\n"

    def say(self, text: str, indent: int = 0, first: str = "", style: str = "") -> None:
        """A sentence, broken at the width."""
        room = max(20, self.width - indent - len(first))
        for at, line in enumerate(wrap(clean(text), room, columns)):
            lead = first if at == 0 else " " * len(first)
            self.lines.append(" " * indent + lead + self.paint(line, style))

    def heading(self, text: str) -> None:
        self.lines.append("")
        self.say(text, style=BOLD)

    # --- nodes ---

    def cluster(self, answer: ClusterAnswer) -> None:
        """What the nodes of a cluster would say, by their reasons; then what would let the pod in."""
        if answer.alike or answer.open:
            self.heading("Nodes")
        for alike in answer.alike:
            text, nodes = alike_line(alike)
            self.say(text, 2, style=RED if alike.never else "")
            self.say(nodes, 4, style=DIM)
        if answer.open:
            self.say(
                f"{counted(len(answer.open), 'node')}: nothing is published that would tell (unknown)", 2
            )
            self.say(named(answer.open), 4, style=DIM)
        for text in pending_limits(answer):
            self.lines.append("")
            self.say(f"{text}.")
        ways = list(pending_ways(answer))
        if ways:
            self.heading("What would let it in, as simulated")
        for number, (text, more) in enumerate(ways, 1):
            self.say(f"{text}.", 2, f"{number}. ")
            if more:
                self.say(f"({more})", 5, style=DIM)
        if answer.restart is not None and answer.restart.plan is not None and answer.restart.plan.steps:
            heads = [HintCell(name) for name in RESTART_COLUMNS]
            rows = [[HintCell(_text(cell)) for cell in row] for row in restart_rows(answer.restart.plan)]
            if _width([heads, *rows]) <= self.width - GAP:
                self.lines.append("")
                self.table([heads, *rows])
            else:
                for step in answer.restart.plan.steps:
                    self.say(step_line(step), 5, "- ")

    # --- hints ---

    def hints(self, one: Round) -> None:
        """Resources by NUMA nodes, whichever way it fits (rule 2)."""
        self.heading(f"Hints of {whose(one.container)}" if one.container != "" else "Hints")
        rows = _by_resource(one.hints)
        if _width(rows) > self.width - GAP:
            rows = _turned(rows)
        if _width(rows) > self.width - GAP:
            for hints in one.hints:
                self.say(_line(hints), 2)
            return
        self.table(rows)
        if any(place.mark == PREFERRED for hints in one.hints for place in hints.places):
            self.say("yes!: preferred, as few NUMA nodes as an idle machine would need", 2, style=DIM)

    def table(self, rows: Sequence[Sequence[HintCell]]) -> None:
        widths = _widths(rows)
        for at, row in enumerate(rows):
            line = ""
            for cell, size in zip(row, widths, strict=True):
                style = BOLD if at == 0 else cell.style
                line += self.paint(cell.text, style) + " " * (size - columns(cell.text) + GAP)
            self.lines.append(" " * GAP + line.rstrip())

    # --- merge ---

    def merge(self, one: Round, rule: str) -> None:
        """What each resource left over, and what came of it."""
        self.heading("Merge")
        for step in one.narrowings:
            self.say(narrowing_text(step), 2)
        style = {True: GREEN, False: RED, None: YELLOW}[one.admitted]
        self.say(f"best: {best_text(one)}", 2, style=style)
        if rule:
            self.say(f"rule: {rule}", 2)

    def walk(self, walk: DecisionWalk) -> None:
        """The decision step by step, but for its end, which the answer is."""
        self.heading("Steps")
        for number, step in enumerate(walk.steps[:-1], 1):
            style = {True: GREEN, False: RED, None: ""}[step.ok]
            self.say(f"{step.title}: {step.text}", 2, f"{number}. ", style=style)

    # --- suggestions ---

    def suggestions(self, one: Explanation) -> None:
        """What would help, smallest change first."""
        if not one.searched:
            return
        what = "the kubelet starts" if one.verdict == NOT_STARTED else "the pod is admitted"
        if one.verdict in (DEFERRED, INFEASIBLE):
            what = "the pod has its new size"
        if not one.suggestions:
            self.lines.append("")
            self.say("No single change was found that would help.")
            return
        where = f" on node {one.cluster.nearest}" if one.cluster is not None and one.cluster.nearest else ""
        self.heading(f"What would help{where}: after each of these {what}, as simulated")
        for number, each in enumerate(one.suggestions, 1):
            self.suggestion(number, each)

    def manifests(self, manifests: Sequence[str]) -> None:
        """Claims to paste."""
        for manifest in manifests:
            self.heading("A claim whose devices stay together")
            self.lines += [f"  {line}" for line in manifest_lines(manifest)]

    def suggestion(self, number: int, one: Suggestion) -> None:
        self.say(f"{one.text}.", 2, f"{number}. ")
        if one.price:
            self.say(f"({one.price})", 5, style=DIM)


# --- tables ---------------------------------------------------------------------------------


def _text(cell: tuple[str, str] | str) -> str:
    return clean(cell if isinstance(cell, str) else cell[0])


def _widths(rows: Sequence[Sequence[HintCell]]) -> list[int]:
    return [max(columns(row[at].text) for row in rows) for at in range(len(rows[0]))]


def _width(rows: Sequence[Sequence[HintCell]]) -> int:
    return sum(size + GAP for size in _widths(rows)) - GAP


def _turned(rows: Sequence[Sequence[HintCell]]) -> list[list[HintCell]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _by_resource(resources: Sequence[ResourceHints]) -> list[list[HintCell]]:
    """A row for each resource, a column for each NUMA node or group of equal ones."""
    groups = _groups(resources)
    head = ["RESOURCE"]
    known = any(hints.asked is not None for hints in resources)
    if known:
        head.append("ASKED")
    head += [f"NUMA {format_ids(mask)}" for mask in groups]
    several = any(hints.wider for hints in resources)
    if several:
        head.append("SEVERAL")
    rows = [[HintCell(text) for text in head]]
    for hints in resources:
        row = [HintCell(clean(hints.resource))]
        if known:
            row.append(HintCell(_asked(hints)))
        for mask in groups:
            place = next((p for p in hints.places if mask >> p.numa & 1), None)
            row.append(_cell(hints, place))
        if several:
            row.append(HintCell(_wider(hints)))
        rows.append(row)
    return rows


def _groups(hints: Sequence[ResourceHints]) -> list[int]:
    """NUMA nodes that get a column together: all that look the same, where there are many."""
    numas = sorted({place.numa for hints in hints for place in hints.places})
    looks: dict[tuple[HintCell, ...], int] = {}
    for numa in numas:
        look = tuple(_cell(hints, next((p for p in hints.places if p.numa == numa), None)) for hints in hints)
        key = look if len(numas) > FEW_NODES else (*look, HintCell(str(numa)))
        looks[key] = looks.get(key, 0) | 1 << numa
    return list(looks.values())


def _cell(hints: ResourceHints, place: NumaFree | None) -> HintCell:
    if hints.answer == NO_PREFERENCE:
        return HintCell("any", DIM)
    if place is None:
        return HintCell("-", DIM)
    word, style = MARKS[place.mark]
    if place.free is None:
        return HintCell(word, style)
    free = bytes_text(place.free) if hints.unit == BYTES else str(place.free)
    note = f", {place.note}" if place.note else ""
    return HintCell(f"{word}, {free} free{note}" if place.free else f"{word}, none free{note}", style)


def _asked(hints: ResourceHints) -> str:
    if hints.asked is None:
        return "-"
    if hints.unit == BYTES:
        return bytes_text(hints.asked)
    return f"{hints.asked} CPU{'s' * (hints.asked != 1)}" if hints.unit == CPUS else str(hints.asked)


def _wider(hints: ResourceHints) -> str:
    if hints.answer == IMPOSSIBLE:
        return "impossible"
    shown = [f"{format_ids(mask)}{'!' if liked else ''}" for mask, liked in hints.wider]
    return " ".join(shown) + (" …" if hints.more else "") if shown else "-"


def _line(hints: ResourceHints) -> str:
    """A resource in one line, where no table has room."""
    places = [f"NUMA {format_ids(mask)} {cell}" for mask, cell in _line_cells(hints)]
    asked = f" ({_asked(hints)})" if hints.asked is not None else ""
    wider = f"; several: {_wider(hints)}" if hints.wider else ""
    return f"{hints.resource}{asked}: {'; '.join(places) or 'any'}{wider}"


def _line_cells(hints: ResourceHints) -> Iterator[tuple[int, str]]:
    looks: dict[str, int] = {}
    for place in hints.places:
        text = _cell(hints, place).text
        looks[text] = looks.get(text, 0) | 1 << place.numa
    for text, mask in looks.items():
        yield mask, text
