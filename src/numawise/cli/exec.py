"""``numawise exec``: a command inside of a running hold."""

import json
import os
import shlex

import click

from numawise.cli.options import BeforeDashes, required_command, say, show_preview

EXAMPLES = """\b
Examples:
  numawise exec train -- py-spy dump --pid 4242
  numawise exec train -- gdb -p 4242
  numawise exec train -- bash                       # nvidia-smi, top, … as the job sees them
  numawise exec --dry-run train -- bash

\b
Exit status: that of the command; 2 no such hold, 3 it cannot be entered, 4 its job has ended or is another
user's, 126 not executable, 127 not found.
"""


@click.command("exec", cls=BeforeDashes, epilog=EXAMPLES, options_metavar="[OPTIONS]")
@click.argument("hold", metavar="HOLD")
@click.option("--dry-run", is_flag=True, help="Show what would be done; start nothing.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="For --dry-run.")
@click.pass_context
def command(context: click.Context, hold: str, dry_run: bool, output: str) -> int:
    """Run a command inside a running HOLD, by name or id: numawise exec HOLD -- COMMAND.

    It gets the CPUs, the memory policy, the GPUs and the limits of the job, and takes nothing from anybody
    else.  It is a part of the job from then on: 'release --kill' ends it, and the hold lives until it has
    ended, too.  In a container it is started by the container's engine.  Only root can enter what another
    user holds.
    """
    from numawise.apps.launch import enter  # noqa: PLC0415 - keeps --help quick
    from numawise.apps.launch.run import capacity_here, open_holdings  # noqa: PLC0415
    from numawise.host.settings import read_settings  # noqa: PLC0415

    words = required_command(context)
    settings = read_settings()
    with open_holdings(capacity_here(settings), os.environ, settings) as holdings:
        if not dry_run:
            enter.enter(holdings, hold, words, dict(os.environ), say)
        preview, started = enter.preview(holdings, hold, words, dict(os.environ))
    if output == "json":
        from numawise.render.holds import preview_data  # noqa: PLC0415

        click.echo(json.dumps(preview_data(preview, started), indent=2))
    else:
        show_preview(preview)
        click.echo(f"  {shlex.join(started)}")
    return 0
