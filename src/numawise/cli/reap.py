"""``numawise reap``: free what the dead held."""

import os
import time

import click

from numawise.cli.options import say

EXAMPLES = """\b
Examples:
  numawise reap
"""


@click.command("reap", epilog=EXAMPLES)
def command() -> int:
    """Free what jobs that have ended held, and remove empty control groups that are a minute old.

    Jobs with a time limit (run --time) that outlived it and the numawise that started them are ended.

    Every command that changes the ledger does the first by itself; run this by hand or from a timer.
    """
    from numawise.apps.launch.ending import remove_stale  # noqa: PLC0415
    from numawise.apps.launch.limit import end_overdue  # noqa: PLC0415
    from numawise.apps.launch.run import capacity_here, open_holdings  # noqa: PLC0415
    from numawise.host.settings import read_settings  # noqa: PLC0415
    from numawise.render import holds as words  # noqa: PLC0415 - keeps --help quick

    settings = read_settings()
    with open_holdings(capacity_here(settings), os.environ, settings) as holdings:
        names = words.gpu_names(holdings.capacity)
        for hold in holdings.reap():
            what = ", ".join(words.held(hold, names)) or "a place in the shared pool"
            click.echo(f"{hold.name} ({hold.id}) of {hold.owner.user}, {words.owner_text(hold)}: {what}")
        for sentence in end_overdue(holdings):
            click.echo(sentence)
        for group in remove_stale(holdings, time.time()):
            click.echo(f"removed {group}")
        for sentence in holdings.silent:
            say(sentence)
    return 0
