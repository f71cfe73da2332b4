"""``numawise doctor``: what on this host stands in the way of alignment, and what to do."""

import sys
from pathlib import Path

import click

from numawise.apps.machine.doctor import Finding, Grade, examine
from numawise.codec.output import to_json
from numawise.host.readiness import read_readiness
from numawise.inputs.machine import discover
from numawise.render.table import GREEN, RED, YELLOW, table
from numawise.results.plain import API_VERSION

STYLES = {Grade.GOOD: ("ok", GREEN), Grade.MIND: ("mind", YELLOW), Grade.BAD: ("bad", RED)}


@click.command(
    epilog="""\b
Examples:
  numawise doctor
  numawise doctor -o json | jq '.findings[] | select(.grade != "ok")'

\b
Exit status: 0 nothing stands in the way, 1 something does."""
)
@click.option(
    "--root", metavar="DIR", default="/", help="Look at the /sys, /proc and /run below DIR instead."
)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.pass_context
def command(context: click.Context, root: str, output: str) -> int:
    """Check this host: NUMA nodes, cgroups and rights, NUMA balancing, GPUs and drivers, a kubelet.

    Each finding comes with its fix.  Nothing is changed.
    """
    folder = Path(root)
    findings = examine(discover(folder), read_readiness(folder, ask_nvml=folder == Path("/")))
    if output == "json":
        rows = [_data(finding) for finding in findings]
        click.echo(to_json({"apiVersion": API_VERSION, "kind": "Examination", "findings": rows}), nl=False)
    else:
        cells: list[list[tuple[str, str] | str]] = [
            [STYLES[f.grade], f.subject, f.found, f.fix] for f in findings
        ]
        table(("", "WHAT", "FOUND", "WHAT TO DO"), cells, sys.stdout, color=context.color)
    return 1 if any(finding.grade is Grade.BAD for finding in findings) else 0


def _data(finding: Finding) -> dict[str, str]:
    row = {"grade": finding.grade.value, "subject": finding.subject, "found": finding.found}
    return row | ({"fix": finding.fix} if finding.fix else {})
