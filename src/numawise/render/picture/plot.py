"""A trace under several choices as SVG: over time, how many pods wait, and what of the free is in pieces.

Rules kept here are those of ``picture.svg``: one self-contained file, text stays text, light and dark, no
scripts; what a colour says is also written.
"""

from collections.abc import Callable, Sequence
from html import escape

from numawise.codec.steps import duration_text
from numawise.render.cluster import MEANING, cluster_summary, seconds_text
from numawise.render.picture.svg import DARK, FONTS, HOLDS_DARK, HOLDS_LIGHT, LIGHT, ascii_markup
from numawise.results.cluster import POOL, ChoiceRun, ClusterRun, FreeMoment
from numawise.values import dataclass

WIDE, LEFT, RIGHT, TOP = 1000, 70, 24, 78
HIGH, GAP = 190, 66
TICKS = (1, 2, 5)
DASHES = ("", "7 3", "2 3", "10 3 2 3", "4 4")
STRONG = (0, 1, 2, 5, 4, 3)
"""Colours of holds in an order for lines: yellow, which is faint as a line, comes last."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One diagram."""

    title: str
    choices: Sequence[ChoiceRun]
    value: Callable[[FreeMoment], float]
    top: float
    word: Callable[[float], str]


def cluster_plot(run: ClusterRun) -> str:
    """The plot as SVG text."""
    most = max((moment.waiting for choice in run.choices for moment in choice.moments), default=0)
    panels = [
        Panel("Pods that wait", run.choices, lambda moment: moment.waiting, _nice(most), "{:.0f}".format),
        Panel(
            f"Share of the free {run.unit} that is of no use to the largest pods",
            [choice for choice in run.choices if choice.choice != POOL],
            lambda moment: 1 - moment.usable / moment.free if moment.free else 0.0,
            1.0,
            "{:.0%}".format,
        ),
    ]
    legend = TOP + len(panels) * (HIGH + GAP)
    high = legend + 22 * len(run.choices) + 12
    summary = cluster_summary(run)
    size = f'viewBox="0 0 {WIDE} {high}" width="{WIDE}" height="{high}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="title description" {size}>',
        f'<title id="title">{escape(summary)}</title>',
        f'<desc id="description">{escape("; ".join(_described(choice) for choice in run.choices))}</desc>',
        f"<style>{_style()}</style>",
        f'<rect class="page" width="{WIDE}" height="{high}"/>',
        f'<text class="head" x="{LEFT}" y="30">{run.pods:,} pods on {run.nodes} nodes</text>',
    ]
    begin = min((moment.at for choice in run.choices for moment in choice.moments), default=0.0)
    end = max((moment.at for choice in run.choices for moment in choice.moments), default=begin + 1)
    for number, panel in enumerate(panels):
        parts += _panel(panel, run, TOP + number * (HIGH + GAP), begin, max(end, begin + 1))
    for number, choice in enumerate(run.choices):
        y = legend + 22 * number
        parts.append(f'<path class="line c{number}" d="M{LEFT} {y - 4}h36"{_dash(number)}/>')
        parts.append(f'<text x="{LEFT + 46}" y="{y}">{escape(_described(choice))}</text>')
    return ascii_markup("\n".join([*parts, "</svg>"]) + "\n")


def _described(choice: ChoiceRun) -> str:
    refused = f", {choice.refusals:,} refused" if choice.choice != POOL else ""
    return f"{choice.choice}: {MEANING[choice.choice]}; mean wait {seconds_text(choice.mean_wait)}{refused}"


def _panel(panel: Panel, run: ClusterRun, top: int, begin: float, end: float) -> list[str]:
    wide = WIDE - LEFT - RIGHT
    parts = [f'<text class="title" x="{LEFT}" y="{top - 12}">{escape(panel.title)}</text>']
    for step in range(5):
        y = top + HIGH - HIGH * step / 4
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}h{wide}"/>')
        value = panel.word(panel.top * step / 4)
        parts.append(f'<text class="tick" text-anchor="end" x="{LEFT - 8}" y="{y + 4:.1f}">{value}</text>')
    for step in range(7):
        at = begin + (end - begin) * step / 6
        x = LEFT + wide * step / 6
        word = duration_text(round((at - begin) / 60) * 60)
        parts.append(
            f'<text class="tick" text-anchor="middle" x="{x:.1f}" y="{top + HIGH + 18}">{word}</text>'
        )
    for choice in panel.choices:
        number = run.choices.index(choice)
        points = "L".join(
            f"{LEFT + wide * (moment.at - begin) / (end - begin):.1f} "
            f"{top + HIGH - HIGH * min(1.0, panel.value(moment) / panel.top):.1f}"
            for moment in choice.moments
        )
        if points:
            title = f"<title>{escape(_described(choice))}</title>"
            parts.append(f'<path class="line c{number}" d="M{points}"{_dash(number)}>{title}</path>')
    return parts


def _dash(number: int) -> str:
    dash = DASHES[number % len(DASHES)]
    return f' stroke-dasharray="{dash}"' if dash else ""


def _nice(most: float) -> float:
    """The next round number that is not below."""
    size = 1
    while True:
        for tick in TICKS:
            if tick * size >= max(most, 4):
                return tick * size
        size *= 10


def _style() -> str:
    def colours(of: dict[str, str], lines: Sequence[str]) -> str:
        rules = f".page{{fill:{of['page']}}}text{{fill:{of['ink']}}}.tick{{fill:{of['quiet']}}}"
        rules += f".grid{{stroke:{of['l3-edge']}}}"
        return rules + "".join(f".c{number}{{stroke:{lines[at]}}}" for number, at in enumerate(STRONG))

    return (
        f"text{{font-family:{FONTS};font-size:13px}}.head{{font-size:20px;font-weight:600}}"
        ".title{font-weight:600;font-size:14px}.tick{font-size:12px;font-variant-numeric:tabular-nums}"
        ".line{fill:none;stroke-width:1.6}.grid{stroke-width:1}"
        + colours(LIGHT, HOLDS_LIGHT)
        + f"@media (prefers-color-scheme:dark){{{colours(DARK, HOLDS_DARK)}}}"
    )
