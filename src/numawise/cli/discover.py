"""``numawise discover``: what this machine, or one whose command output is given, is made of."""

import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from numawise.errors import InputError, one_line

if TYPE_CHECKING:
    from numawise.machine.hardware import Hardware

COLUMNS = ("NUMA", "CPUS", "MEMORY", "HUGEPAGES", "GPUS", "NICS", "NOTE")


@click.command(
    epilog="""\b
Examples:
  numawise discover
  numawise discover --machine --out machine.yaml
  numawise discover --from lscpu.txt numactl.txt topo.txt -o json
  nvidia-smi topo -m | numawise discover --from - --assume --machine

\b
Exit status: 0, also where something could not be known (remarks say what); 2 unreadable input."""
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["yaml", "json", "text"]),
    help="Output format.  [default: text on a terminal, else yaml; for --out by its suffix]",
)
@click.option(
    "--root",
    metavar="DIR",
    help="A copy of the /sys and /proc of a machine, instead of this one's.",
)
@click.option(
    "--from",
    "sources",
    multiple=True,
    metavar="FILE...",
    help="Command output and files of another machine: lscpu, lscpu -e or -p, numactl -H, "
    "nvidia-smi topo -m, lstopo --of xml, an NCCL topology, cAdvisor's machine info, a saved discovery.  "
    "Several become one; - is standard input.",
)
@click.option("--assume", is_flag=True, help="Fill what is not known by stated rules; remarks say which.")
@click.option("--machine", is_flag=True, help="Print the machine file that simulate --machine takes.")
@click.option("--out", metavar="FILE", help="Write to this file, atomically, instead of printing.")
@click.argument("files", nargs=-1, metavar="[FILES]...")
@click.pass_context
def command(
    context: click.Context,
    output: str | None,
    root: str | None,
    sources: Sequence[str],
    assume: bool,
    machine: bool,
    out: str | None,
    files: Sequence[str],
) -> int:
    """Show CPUs, caches, NUMA nodes, memory, PCI devices, GPUs and their links.

    Without options it reads this machine.  FILES are further ones for --from.
    """
    from numawise.codec.hardware.encode import hardware_data  # noqa: PLC0415 - keeps --help quick
    from numawise.codec.outfile import write_whole  # noqa: PLC0415
    from numawise.codec.output import to_json, to_yaml  # noqa: PLC0415
    from numawise.inputs.machine import discover, machine_data  # noqa: PLC0415
    from numawise.render.terminal import cleaned  # noqa: PLC0415

    if files and not sources:
        raise InputError(f"{files[0]} is not expected", advice=f"write --from {files[0]}")
    every = (*sources, *files)
    if every.count("-") > 1:
        raise InputError("standard input (-) can be read only once", advice="save one of them to a file")
    found = discover(Path(root) if root is not None else None, every, assume=assume)
    form = output or _form(out, machine=machine)
    if machine:
        data = machine_data(found)
        text = to_json(data) if form == "json" else _comments(found) + to_yaml(data)
    elif form == "text":
        drawn = io.StringIO()
        _show(found, cleaned(drawn, out) if out is not None else sys.stdout, context.color)
        text = drawn.getvalue()
    else:
        data = hardware_data(found)
        text = to_json(data) if form == "json" else to_yaml(data)
    if out is not None:
        write_whole(out, text)
    else:
        click.echo(text, nl=False)
    return 0


def _form(out: str | None, *, machine: bool) -> str:
    if out is not None:
        return "json" if out.endswith(".json") else "yaml"
    return "text" if sys.stdout.isatty() and not machine else "yaml"


def _comments(found: "Hardware") -> str:
    """What a machine file does not say for itself: guesses and contradictions."""
    from numawise.machine.hardware import ASSUMED, DIFFERS  # noqa: PLC0415
    from numawise.render.hardware import remark_line  # noqa: PLC0415

    doubtful = [remark for remark in found.remarks if remark.kind in (ASSUMED, DIFFERS)]
    return "".join(f"# {one_line(remark_line(remark))}\n" for remark in doubtful)


def _show(found: "Hardware", file: IO[str], color: bool | None) -> None:
    from numawise.render.hardware import summary  # noqa: PLC0415
    from numawise.render.table import sentences, table  # noqa: PLC0415
    from numawise.render.terminal import DIM  # noqa: PLC0415

    short = summary(found)
    sentences(short.counts, file)
    if short.rows:
        click.echo(file=file)
        rows = [[(cell, DIM) if cell in ("-", "?") else cell for cell in row] for row in short.rows]
        table(COLUMNS, rows, file, color=color if file is sys.stdout else False)
    if short.remarks:
        click.echo(file=file)
    for remark in short.remarks:
        sentences(remark, file)
