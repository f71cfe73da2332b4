"""``numawise doctor``: what on this host stands in the way of alignment, and what to do."""

import os
import sys
from pathlib import Path

import click


@click.command(
    epilog="""\b
Examples:
  numawise doctor
  numawise doctor -o json | jq '.findings[] | select(.severity != "info")'

\b
Exit status: 0 nothing stands in the way, 1 something does."""
)
@click.option(
    "--root", metavar="DIR", default="/", help="Look at the /sys, /proc and /run below DIR instead."
)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.pass_context
def command(context: click.Context, root: str, output: str) -> int:
    """Check this host: NUMA nodes, cgroups and rights, NUMA balancing, GPUs and drivers, a kubelet, sharing.

    Each finding comes with its fix.  Nothing is changed.
    """
    from numawise.apps.machine.doctor import examine  # noqa: PLC0415 - keeps --help quick
    from numawise.apps.machine.sharing import examine_sharing  # noqa: PLC0415
    from numawise.codec.output import to_json  # noqa: PLC0415
    from numawise.host.discover import has_nvidia  # noqa: PLC0415
    from numawise.host.readiness import read_readiness  # noqa: PLC0415
    from numawise.inputs.machine import discover  # noqa: PLC0415
    from numawise.render.table import table  # noqa: PLC0415
    from numawise.render.terminal import GREEN, RED, YELLOW  # noqa: PLC0415
    from numawise.results.finding import Severity  # noqa: PLC0415
    from numawise.results.plain import document  # noqa: PLC0415

    folder = Path(root)
    hardware = discover(folder)
    ready = read_readiness(folder, ask_nvml=folder == Path("/") and has_nvidia(hardware))
    findings = examine(hardware, ready, examine_sharing(folder, os.environ))
    if output == "json":
        click.echo(to_json(document("Examination", {"findings": findings})), nl=False)
    else:
        styles = {
            Severity.INFO: ("ok", GREEN),
            Severity.WARNING: ("warning", YELLOW),
            Severity.ERROR: ("error", RED),
        }
        cells: list[list[tuple[str, str] | str]] = [
            [styles[each.severity], each.field, each.message, each.fix] for each in findings
        ]
        table(("", "WHAT", "FOUND", "WHAT TO DO"), cells, sys.stdout, color=context.color)
    return 1 if any(each.severity is Severity.ERROR for each in findings) else 0
