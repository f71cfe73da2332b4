"""``numawise machine``: machines by description and by name, as files for ``simulate``."""

import sys
from collections.abc import Sequence

import click

from numawise.cli.options import output_option

WORDS = """\b
Words: 2s sockets, 4n NUMA nodes, 64c cores, 2t threads per core, 512g or 2tb memory (128g/n: of each node),
  8gpu, 4nic, 2nvme, nvlink (nvlink=12), pairs (a PCIe switch for every two GPUs), l3=8c, adjacent
  (threads 0,1), interleaved, hugepages (hugepages=1Gi:16), memonly=2, numa-distance=32.
  Numbers count the whole machine."""


@click.group()
def command() -> None:
    """Make machine files without the machine: from a description, or from a catalogue of known servers."""


@command.command(
    "new",
    epilog=f"""{WORDS}

\b
Examples:
  numawise machine new 2s 4n 64c 2t 8gpu nvlink > machine.yaml
  numawise machine new dgx-h100 -o json
  numawise machine new 2s 2n 192c 2t 8gpu 16nic l3=8c --hardware

\b
Exit status: 0; 2 a word that makes no sense.""",
)
@output_option("yaml", "json", words="File format.")
@click.option(
    "--hardware", is_flag=True, help="Print everything that is known, with links, as discover does."
)
@click.argument("words", nargs=-1, required=True, metavar="TEXT...")
def new(output: str, hardware: bool, words: Sequence[str]) -> int:
    """Print the machine file that simulate --machine takes.

    TEXT describes the machine in words, or is a name from 'numawise machine list'.
    """
    from numawise.codec.output import to_json, to_yaml  # noqa: PLC0415
    from numawise.inputs.machine import read_machine  # noqa: PLC0415 - keeps --help quick

    found = read_machine(words).hardware
    if hardware:
        from numawise.codec.hardware.encode import hardware_data  # noqa: PLC0415

        data = hardware_data(found)
    else:
        from numawise.inputs.machine import machine_data  # noqa: PLC0415

        data = machine_data(found)
    click.echo(to_json(data) if output == "json" else to_yaml(data), nl=False)
    return 0


@command.command("list")
@output_option("text", "json", "name", words="Output format.")
@click.pass_context
def catalogue(context: click.Context, output: str) -> int:
    """List the machines of the catalogue."""
    from numawise.codec.output import to_json  # noqa: PLC0415
    from numawise.machine.catalog import CATALOG  # noqa: PLC0415
    from numawise.render.table import table  # noqa: PLC0415

    if output == "name":
        click.echo("\n".join(CATALOG))
    elif output == "json":
        entries = [
            {"name": name, "summary": entry.summary, "source": entry.source}
            for name, entry in CATALOG.items()
        ]
        click.echo(to_json(entries), nl=False)
    else:
        rows = [(name, entry.summary) for name, entry in CATALOG.items()]
        table(("NAME", "MACHINE"), rows, sys.stdout, color=context.color)
    return 0


@command.command("show")
@click.argument("name")
@click.option(
    "--width", type=click.IntRange(40, 400), metavar="COLUMNS", help="Width.  [default: the terminal's]"
)
@click.option("--ascii", "ascii_only", is_flag=True, help="Draw with plain ASCII characters.")
def show(name: str, width: int | None, ascii_only: bool) -> int:
    """Draw a machine of the catalogue and name the source of its facts."""
    from numawise.cli.show import default_width, speaks_unicode  # noqa: PLC0415 - keeps --help quick
    from numawise.machine.catalog import CATALOG, machine_named  # noqa: PLC0415
    from numawise.render.picture.layout import picture  # noqa: PLC0415
    from numawise.render.picture.text import text  # noqa: PLC0415
    from numawise.render.table import sentences  # noqa: PLC0415

    found = machine_named(name)
    plain = ascii_only or not speaks_unicode()
    click.echo(text(picture(found), width or default_width(), ascii_only=plain), nl=False)
    sentences(f"\nSource: {CATALOG[name].source}", sys.stdout)
    return 0
