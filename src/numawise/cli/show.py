"""``numawise show``: a picture of a machine, in the terminal, as SVG or as a page."""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from numawise.cli.options import say
from numawise.errors import quoted

if TYPE_CHECKING:
    from numawise.machine.hardware import Hardware
    from numawise.render.holders import Overlay

FORMS = {".svg": "svg", ".html": "html", ".htm": "html", ".json": "json"}
WIDE, WIDEST = 100, 200


@click.command(
    epilog="""\b
Examples:
  numawise show
  numawise show dgx-h100 --advice
  numawise show 2s 4n 64c 2t 8gpu nvlink
  numawise show machine.yaml -o svg --out machine.svg
  nvidia-smi topo -m > topo.txt; lscpu > lscpu.txt; numawise show --from topo.txt lscpu.txt
  numawise show --out machine.html --advice
  numawise show --holds

\b
Exit status: 0, also where something is not known; 2 bad input."""
)
@click.option(
    "--from",
    "sources",
    multiple=True,
    metavar="FILE...",
    help="Command output of a machine, as for discover: lscpu, numactl -H, nvidia-smi topo -m, lstopo XML.",
)
@click.option("--root", metavar="DIR", help="A copy of the /sys and /proc of a machine.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "svg", "html", "json"]),
    help="Picture format.  [default: text; for --out by its suffix]",
)
@click.option("--out", metavar="FILE", help="Write to this file, atomically, instead of printing.")
@click.option(
    "--width",
    type=click.IntRange(40, 400),
    metavar="COLUMNS",
    help="Width of the text.  [default: the terminal's; 100 where there is none]",
)
@click.option("--ascii", "ascii_only", is_flag=True, help="Draw with plain ASCII characters.")
@click.option("--advice", "advise", is_flag=True, help="Add which GPUs, CPUs and NICs belong together.")
@click.option(
    "--holds", is_flag=True, help="Draw what jobs hold on this host now, as 'numawise ps' lists it."
)
@click.argument("machine", nargs=-1, metavar="[FILE|NAME|WORDS]...")
@click.pass_context
def command(
    context: click.Context,
    sources: Sequence[str],
    root: str | None,
    output: str | None,
    out: str | None,
    width: int | None,
    ascii_only: bool,
    advise: bool,
    holds: bool,
    machine: Sequence[str],
) -> int:
    """Draw sockets, NUMA nodes, caches, cores, GPUs and NICs, and how they are linked.

    The machine is this one, a machine file, saved hardware, a bundle, command output of another one, a name
    from 'numawise machine list', or a description in words ('numawise machine new --help' explains it).
    """
    from numawise.inputs.machine import read_machine  # noqa: PLC0415 - keeps --help quick

    overlay = None
    if holds:
        found, overlay = _held(*machine, *sources, *([root] if root is not None else []))
    else:
        found = read_machine((*([root] if root is not None else ()), *sources, *machine)).hardware
    form = output or (FORMS.get(Path(out).suffix.lower(), "text") if out else "text")
    if form == "text":
        color = wants_color(context.color) and out is None
        plain = ascii_only or (out is None and not speaks_unicode())
        drawn = _text(found, overlay, width or default_width(), plain=plain, color=color, advise=advise)
    else:
        color, drawn = False, _document(found, overlay, form, advise=advise)
    if out is not None:
        from numawise.codec.outfile import write_whole  # noqa: PLC0415

        write_whole(out, drawn)
    else:
        click.echo(drawn, nl=False, color=color)
    return 0


def _held(*others: str) -> "tuple[Hardware, Overlay]":
    """This machine and what jobs hold on it."""
    from numawise.errors import InputError  # noqa: PLC0415

    if others:
        advice = "leave out the machine, or --holds"
        raise InputError(
            f"holds are of this host, not of {quoted(others[0])}", field="--holds", advice=advice
        )
    from numawise.apps.launch.host_holds import host_holds  # noqa: PLC0415
    from numawise.render.holders import Overlay, held_hardware, holds_held  # noqa: PLC0415
    from numawise.render.holds import gpu_names, hold_data  # noqa: PLC0415
    from numawise.values import replace  # noqa: PLC0415

    here = host_holds()
    live, capacity = here.holds, here.capacity
    for sentence in here.remarks:
        say(sentence)
    held = holds_held(live, gpu_names(capacity))
    hardware = replace(
        capacity.hardware,
        name=capacity.hardware.name or "this machine",
        gpus=capacity.hardware.gpus or capacity.gpus,
    )
    data = tuple(hold_data(hold, capacity, live) for hold in live)
    return hardware, Overlay(held_hardware(hardware, held), held.cpus, data)


def _text(
    found: "Hardware", overlay: "Overlay | None", width: int, *, plain: bool, color: bool, advise: bool
) -> str:
    from numawise.apps.machine.advice import advice, advice_text  # noqa: PLC0415
    from numawise.render.picture.layout import picture  # noqa: PLC0415
    from numawise.render.picture.text import plain as as_ascii  # noqa: PLC0415
    from numawise.render.picture.text import text  # noqa: PLC0415

    seen = picture(overlay.hardware, overlay.cpus) if overlay else picture(found)
    drawn = text(seen, width, ascii_only=plain, color=color)
    if advise:
        lines = advice_text(advice(found), width)
        drawn += "\n" + (as_ascii(lines) if plain else lines)
    return drawn


def _document(found: "Hardware", overlay: "Overlay | None", form: str, *, advise: bool) -> str:
    """The picture as a file for other programs."""
    from numawise.apps.machine.advice import advice  # noqa: PLC0415

    sections = advice(found) if advise else ()
    if form == "json":
        from numawise.codec.hardware.encode import hardware_data  # noqa: PLC0415
        from numawise.codec.output import to_json  # noqa: PLC0415

        data = hardware_data(found)
        if advise:
            data["advice"] = [{"title": one.title, "lines": list(one.lines)} for one in sections]
        if overlay:
            data["holds"] = list(overlay.data)
        return to_json(data)
    from numawise.render.picture.layout import picture  # noqa: PLC0415

    seen = picture(overlay.hardware, overlay.cpus) if overlay else picture(found)
    if form == "html":
        from numawise.render.picture.html import html  # noqa: PLC0415

        return html(seen, [(one.title, one.lines) for one in sections])
    from numawise.render.picture.svg import svg  # noqa: PLC0415

    return svg(seen)


def default_width() -> int:
    """Columns of the terminal, or as many as look good where there is none."""
    if not sys.stdout.isatty() and not os.environ.get("COLUMNS"):
        return WIDE
    return min(WIDEST, shutil.get_terminal_size((WIDE, 24)).columns)


def wants_color(wanted: bool | None) -> bool:
    """Colour on a terminal; NO_COLOR and FORCE_COLOR decide otherwise, in this order."""
    if wanted is not None:
        return wanted
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (sys.stdout.isatty() and os.environ.get("TERM") != "dumb")


def speaks_unicode() -> bool:
    """Whether standard output can carry box drawing characters."""
    return (sys.stdout.encoding or "ascii").lower().replace("-", "").startswith("utf")
