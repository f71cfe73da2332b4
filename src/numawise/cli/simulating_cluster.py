"""``numawise simulate --cluster``: a trace of pods over many nodes, under several choices side by side."""

import sys
from collections.abc import Sequence

from numawise.apps.simulate.cluster import TraceSettings, run_trace
from numawise.cli.options import say
from numawise.cli.simulating import INTERRUPTED, SimulateOptions, SimulationText, emit, write_data
from numawise.codec.arrivals import read_arrivals
from numawise.codec.steps import parse_duration
from numawise.errors import InputError, quoted, suggestion
from numawise.inputs.node_groups import groups_of
from numawise.render import cluster as words
from numawise.render.picture.plot import cluster_plot
from numawise.render.progress import progress_bar
from numawise.results.cluster import NODE_CHOICES
from numawise.strconv import whole_number

LONGEST_RETRY = 86_400.0


def simulate_cluster(
    asked: SimulateOptions, trace: str, nodes: Sequence[str], choices: str, times: tuple[str, str]
) -> int:
    """Play a trace, and show what came of it."""
    names = _choices(choices)
    retry, patience = (_time(text, name) for text, name in zip(times, ("--retry", "--patience"), strict=True))
    if not 1 <= retry <= LONGEST_RETRY:
        raise InputError(f"{quoted(times[0])} is not from 1s to 24h", field="--retry", advice="such as 30s")
    groups = groups_of(nodes, asked.named, lambda text: say(text) if text else None)
    arrivals = read_arrivals(trace)
    total = len(arrivals) * len(names)
    with progress_bar(sys.stderr, "pods", total, shown=not asked.quiet) as progress:
        run = run_trace(groups, arrivals, names, TraceSettings(retry, patience), progress)
    if asked.output == "svg":
        emit(asked, cluster_plot(run))
    elif asked.output != "text":
        write_data(asked, words.cluster_data(run))
    else:
        with SimulationText(asked) as text:
            text.table(words.COLUMNS, words.cluster_rows(run))
            text.notes(words.cluster_notes(run))
            text.last(words.cluster_summary(run))
    return INTERRUPTED if run.interrupted else 1 if any(choice.never for choice in run.choices) else 0


def _choices(text: str) -> tuple[str, ...]:
    if text == "all":
        return NODE_CHOICES
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names:
        if name not in NODE_CHOICES:
            advice = suggestion(name, NODE_CHOICES)
            raise InputError(f"unknown choice {quoted(name)}", field="--choices", advice=advice)
    if not names:
        raise InputError("names no choice", field="--choices", advice=f"known are {', '.join(NODE_CHOICES)}")
    return names


def _time(text: str, field: str) -> float:
    try:
        return float(whole_number(text)) if text.isascii() and text.isdigit() else parse_duration(text)
    except ValueError:
        advice = "write it as 30s, 5m or 1h30m"
        raise InputError(f"{quoted(text)} is not a time", field=field, advice=advice) from None
