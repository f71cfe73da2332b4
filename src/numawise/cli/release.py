"""``numawise release``: give holds back."""

import os

import click

from numawise.cli.options import say
from numawise.cli.placing import duration

EXAMPLES = """\b
Examples:
  numawise release train            # its job has ended, or is frozen beyond repair
  numawise release --term 30 train  # ask the job to end (SIGTERM), kill it after 30 seconds
  numawise release --kill train     # end the job, then free what it held
  numawise release bq2x7            # one that waits, by its id in 'numawise ps'
"""


@click.command("release", epilog=EXAMPLES)
@click.argument("holds", metavar="HOLD...", nargs=-1, required=True)
@click.option("--kill", is_flag=True, help="Kill the job first.")
@click.option(
    "--term", metavar="SECONDS", help="Ask the job to end first, and kill after so long what is left of it."
)
@click.option("--force", is_flag=True, help="Free it although its job is still running.")
def command(holds: tuple[str, ...], kill: bool, term: str | None, force: bool) -> int:
    """Give back HOLDs, by name, id or USER/ID; or put a job that waits for room out of the line.

    A hold ends by itself with its job.  One whose job still runs is given back only with --term, --kill or
    --force, since the next job would be put beside it.  A job that waits ends with status 1.  Only root can
    release what another user holds or waits for.
    """
    from numawise.apps.launch.ending import named, put_out, release  # noqa: PLC0415 - keeps --help quick
    from numawise.apps.launch.run import capacity_here, open_holdings  # noqa: PLC0415
    from numawise.host.settings import read_settings  # noqa: PLC0415
    from numawise.results.placement import Hold  # noqa: PLC0415

    if term is not None and kill:
        raise click.UsageError("--term kills, too, what has not ended in time: give one of --term and --kill")
    patience = None if term is None else duration(term, "--term", "write 30, 2m or 1h")
    settings = read_settings()
    with open_holdings(capacity_here(settings), os.environ, settings) as holdings:
        found = [named(holdings, name) for name in holds]
        status = 0
        for hold in found:
            if not isinstance(hold, Hold):
                put_out(holdings, hold)
                click.echo(f"{hold.id} (pid {hold.owner.pid}, {hold.request}) waits no longer")
                continue
            problem = release(holdings, hold, kill=kill, force=force, term=patience)
            if problem:
                say(problem)
                status = 1
            else:
                click.echo(f"{hold.name} ({hold.id}) released")
    return status
