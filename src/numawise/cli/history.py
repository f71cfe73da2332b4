"""``numawise history``: what has ended on this host."""

import json
import os
import sys

import click

from numawise.cli.options import say_remarks

EXAMPLES = """\b
Examples:
  numawise history
  numawise history --user alice --most 200
  numawise history -o json | jq '.ended[] | select(.status != 0)'
"""


@click.command("history", epilog=EXAMPLES)
@click.option("--user", metavar="NAME", default="", help="Jobs of this user only.")
@click.option(
    "--most",
    metavar="N",
    type=click.IntRange(1, 100_000),
    default=50,
    show_default=True,
    help="List at most so many, the newest.",
)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")
@click.pass_context
def command(context: click.Context, user: str, most: int, output: str) -> int:
    """Which jobs ended on this host, what they had, how long they took, and how they ended.

    The ledger keeps the last few hundred of each user.  HOW is "ok" or the exit status of the job, a signal,
    "released", "time limit" (run --time), "not started", or "found ended" where nobody watched over it: then
    it may have ended earlier.
    """
    from numawise.apps.launch.box import hold_history  # noqa: PLC0415 - keeps --help quick
    from numawise.apps.launch.run import capacity_here, open_holdings  # noqa: PLC0415
    from numawise.cli.ps import check_user  # noqa: PLC0415
    from numawise.host.settings import read_settings  # noqa: PLC0415
    from numawise.render.hold_table import write_history  # noqa: PLC0415

    if user:
        check_user(user)
    settings = read_settings()
    with open_holdings(capacity_here(settings), os.environ, settings) as holdings:
        if output == "json":
            click.echo(json.dumps(hold_history(holdings, user, most), indent=2))
            return 0
        say_remarks(holdings.place.warnings)
        every = [ended for ended in holdings.history() if user in ("", ended.hold.owner.user)]
        if not every:
            click.echo("nothing has ended yet" + (f" of {user}" if user else ""))
            return 0
        write_history(every[:most], holdings.capacity, sys.stdout, color=context.color)
        if len(every) > most:
            click.echo(f"{len(every) - most} more: see --most")
    return 0
