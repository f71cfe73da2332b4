"""The ways of ``numawise simulate``: one node, two configurations, two releases, many nodes."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

import click

from numawise.apps.simulate.scenario import run_scenario, script
from numawise.cli.options import say, say_remarks
from numawise.codec.output import to_json, to_yaml
from numawise.codec.steps import Timed, read_steps, resize_text, template_of
from numawise.errors import InputError, quoted
from numawise.inputs.config import read_config
from numawise.inputs.pods import PodsInput, read_pods
from numawise.inputs.spec import NodeInput, NodeSpec, read_node, start_node
from numawise.render import simulation as simulation_words
from numawise.render.progress import progress_bar
from numawise.render.table import sentences, table
from numawise.render.terminal import cleaned
from numawise.results.simulation import Fill, ScenarioRun
from numawise.results.state import unmatched_data
from numawise.values import dataclass, replace

if TYPE_CHECKING:
    from numawise.machine.hardware import Hardware

INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class SimulateOptions:
    """What was given on the command line."""

    context: click.Context
    named: NodeSpec
    pods: tuple[str, ...]
    steps: str | None
    resizes: tuple[str, ...]
    fills: tuple[str, ...]
    most: int
    output: str
    out: str | None
    quiet: bool
    drawn: bool


def simulate_one(asked: SimulateOptions) -> int:
    """Pods and steps on one node."""
    source = read_node(asked.named)
    _ = source.configuration  # that there is none is said first
    say_remarks(source.remarks_of_start)
    source, happening = _script(asked, source)
    run = _run(asked, source, happening)
    steps = asked.steps is not None or bool(asked.resizes)
    if asked.output in ("json", "yaml"):
        data = simulation_words.simulation_data(run, steps=steps)
        write_data(asked, {**data, **unmatched_data(source.unmatched)})
    elif asked.output == "text":
        _one_text(asked, source, run, steps=steps)
    else:
        emit(asked, _drawing(asked, source.hardware, run))
    return INTERRUPTED if run.interrupted else 0 if run.well else 1


def compare_configs(asked: SimulateOptions, other: str) -> int:
    """The same under two configurations."""
    from numawise.compare.releases import compare_runs  # noqa: PLC0415
    from numawise.render import comparison as words  # noqa: PLC0415 - few ask for it

    source = read_node(asked.named)
    described = source.description.reconfigured() if source.description is not None else None
    second = replace(source, config_input=read_config(other), description=described)
    say_remarks(dict.fromkeys((*source.remarks_of_start, *second.remarks_of_start)))
    source, happening = _script(asked, source)
    first = _run(asked, source, happening)
    second = replace(second, ended=source.ended)
    runs = (first, _run(asked, second, () if first.interrupted else happening))
    compared = compare_runs(*runs, _apart(source.configuration.name, other))
    if asked.output != "text":
        write_data(asked, words.config_comparison_data(compared))
    else:
        with SimulationText(asked) as text:
            if compared.pods:
                text.table(words.CONFIG_COLUMNS, words.config_rows(compared))
            text.notes(words.config_notes(compared))
            if any(run.fills for run in runs):
                text.blank()
            for name, run in zip(compared.names, runs, strict=True):
                for filled in run.fills:
                    lines = simulation_words.fill_lines(filled)
                    text.lines([f"{name}: {lines[0]}", *lines[1:]])
            if compared.pods:
                text.last(words.config_summary(compared))
    return INTERRUPTED if any(run.interrupted for run in runs) else 0 if compared.same else 1


def compare_releases(asked: SimulateOptions, releases: str) -> int:
    """The same pods in two releases."""
    from numawise.compare.attribution import Pair  # noqa: PLC0415
    from numawise.compare.releases import Case, compare  # noqa: PLC0415
    from numawise.inputs.spec import read_release  # noqa: PLC0415
    from numawise.render import comparison as words  # noqa: PLC0415 - few ask for it

    if asked.named.kube:
        raise InputError("--kube and --compare-kube exclude each other", advice="give one of them")
    texts = releases.split(",")
    if len(texts) != 2 or not all(text.strip() for text in texts):
        raise InputError(
            f"{quoted(releases)} is not two versions", field="--compare-kube", advice="such as 1.34,1.36"
        )
    old, new = (read_release(text.strip(), field="--compare-kube") for text in texts)
    remarks = tuple(dict.fromkeys(one.remark for one in (old, new) if one.remark))
    for remark in remarks:
        _say(remark)
    source = read_node(asked.named)
    config = source.configuration
    raws = [config.raw(one.version) for one in (old, new)]
    for one, another in ((old, new), (new, old)):
        config.config(one.version, another.version)
    pods = source.pods(asked.pods)
    say_remarks(one for one in (*source.remarks_of_start, *pods.remarks) if one != source.profile.remark)
    case = Case(source.machine, source.texts, pods.pods, description=source.description)
    changes = compare(case, Pair(old.version, new.version, raws[0], raws[1]))
    count = len(case.pods)
    if asked.output != "text":
        write_data(asked, words.comparison_data(changes, count, old.version, new.version, remarks))
    else:
        with SimulationText(asked) as text:
            rows = words.change_rows(changes)
            if rows:
                text.table(words.change_columns(old.version, new.version), rows)
            text.notes(
                [*words.change_notes(changes), words.summary(changes, count, old.version, new.version)]
            )
    return 1 if any(not change.minor for change in changes) else 0


def simulate_nodes(asked: SimulateOptions, nodes: Sequence[str], choice: str) -> int:
    """A queue of pods before many nodes."""
    from numawise.apps.simulate.fleet import fleet_of, send  # noqa: PLC0415
    from numawise.inputs.node_groups import groups_of  # noqa: PLC0415
    from numawise.render import fleet as words  # noqa: PLC0415 - few ask for it

    fleet = fleet_of(groups_of(nodes, asked.named, _say), choice)
    read = read_pods(asked.pods, node=asked.named.node_name)
    say_remarks(read.remarks)
    pods = read.pods
    with progress_bar(sys.stderr, "pods", len(pods), shown=not asked.quiet) as progress:
        send(fleet, pods, progress)
    result = fleet.result()
    if asked.output != "text":
        write_data(asked, words.fleet_data(result))
    else:
        with SimulationText(asked) as text:
            text.table(words.NODE_COLUMNS, words.node_rows(result))
            text.blank()
            text.table(words.WORK_COLUMNS, words.work_rows(result))
            text.notes(list(words.notes(result)))
            text.last(words.summary(result))
    return INTERRUPTED if result.interrupted else 0 if result.placed == result.total else 1


# --- what happens -----------------------------------------------------------------------------


def _script(asked: SimulateOptions, source: NodeInput) -> tuple[NodeInput, tuple[Timed, ...]]:
    """What is to happen, and the node without those of the pods that have ended."""
    pods = source.pods(asked.pods) if asked.pods else PodsInput(())
    say_remarks(pods.remarks)
    steps = read_steps(asked.steps) if asked.steps is not None else ()
    fills = []
    for path in asked.fills:
        pod = template_of(source.pods([path]).pods)
        if pod is None:
            raise InputError("holds pods that differ", file=path, advice="give one pod to make copies of")
        fills.append(Fill(pod))
    happening = script(pods.pods, steps, fills, [resize_text(text) for text in asked.resizes])
    return replace(source, ended=pods.gone), happening


def _run(asked: SimulateOptions, source: NodeInput, happening: Sequence[Timed]) -> ScenarioRun:
    node = start_node(source)
    if node.files.forgotten:
        _say(f"warning: {source.state_place}: {node.files.forgotten}")
    total = sum(len(getattr(one.act, "pods", ())) for one in happening)
    known = None if any(isinstance(one.act, Fill) for one in happening) else total
    with progress_bar(sys.stderr, "pods", known, shown=not asked.quiet) as progress:
        return run_scenario(node, happening, progress, asked.most)


def _apart(first: str, second: str) -> tuple[str, str]:
    """The shortest ends of two paths in which they differ."""
    one, other = Path(first).parts, Path(second).parts
    for size in range(1, max(len(one), len(other)) + 1):
        if one[-size:] != other[-size:]:
            return str(Path(*one[-size:])), str(Path(*other[-size:]))
    return f"{first} (1)", f"{second} (2)"


# --- what is said -----------------------------------------------------------------------------


def _one_text(asked: SimulateOptions, source: NodeInput, run: ScenarioRun, *, steps: bool) -> None:
    with SimulationText(asked) as text:
        rows = simulation_words.table_rows(run, steps=steps)
        if rows:
            text.table(simulation_words.table_columns(run, steps=steps), rows)
        text.notes(simulation_words.notes(run))
        for filled in run.fills:
            text.blank()
            text.lines(simulation_words.fill_lines(filled))
        text.last(simulation_words.summary(run))
        if asked.drawn:
            text.blank()
            text.raw(_drawing(asked, source.hardware, run))


def _drawing(asked: SimulateOptions, hardware: "Hardware", run: ScenarioRun) -> str:
    """The machine at the end, in the form that is asked for."""
    from numawise.render.holders import held_hardware, node_held  # noqa: PLC0415 - few ask for it
    from numawise.render.picture.layout import picture  # noqa: PLC0415

    held = node_held(run.state, run.rules, run.names, run.owners)
    seen = picture(held_hardware(hardware, held), held.cpus)
    if asked.output == "svg":
        from numawise.render.picture.svg import svg  # noqa: PLC0415

        return svg(seen)
    if asked.output == "html":
        from numawise.render.picture.html import html  # noqa: PLC0415

        tables = [("Pods", [simulation_words.summary(run), *simulation_words.notes(run)])] if run.pods else []
        return html(seen, tables)
    from numawise.cli.show import default_width, speaks_unicode, wants_color  # noqa: PLC0415
    from numawise.render.picture.text import text  # noqa: PLC0415

    color = wants_color(asked.context.color) and asked.out is None
    plain = asked.out is None and not speaks_unicode()
    return text(seen, default_width(), ascii_only=plain, color=color)


def write_data(asked: SimulateOptions, data: object) -> None:
    """Print data in the format that is asked for."""
    emit(asked, to_yaml(data) if asked.output == "yaml" else to_json(data))


def emit(asked: SimulateOptions, drawn: str) -> None:
    """Print a text, or write it to the file that is named."""
    if asked.out is None:
        click.echo(drawn, nl=False)
        return
    from numawise.codec.outfile import write_whole  # noqa: PLC0415 - few ask for it

    write_whole(asked.out, drawn)


class SimulationText:
    """Text in parts with a blank line between them; into a file at the end, when one is named."""

    def __init__(self, asked: SimulateOptions) -> None:
        import io  # noqa: PLC0415 - only for --out

        self.asked = asked
        self.whole = io.StringIO()
        self.file = sys.stdout if asked.out is None else cleaned(self.whole, asked.out)
        self.begun = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self.asked.out is not None and kind is None:
            emit(self.asked, self.whole.getvalue())

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[tuple[str, str] | str]]) -> None:
        color = self.asked.context.color if self.asked.out is None else False
        table(columns, rows, self.file, color=color)
        self.begun = True

    def notes(self, lines: Sequence[str]) -> None:
        """Lines after a blank one, if there are any."""
        if lines:
            self.blank()
            self.lines(lines)

    def last(self, line: str) -> None:
        self.notes([line] if line else [])

    def blank(self) -> None:
        if self.begun:
            self.lines([""])

    def lines(self, lines: Iterable[str]) -> None:
        for line in lines:
            sentences(line, self.file)
            self.begun = True

    def raw(self, drawn: str) -> None:
        click.echo(drawn, nl=False, file=self.file, color=None)


def _say(text: str) -> None:
    if text:
        say(text)
