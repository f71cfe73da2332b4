"""``numawise ps``: who holds what on this host."""

import json
import os
import sys
import time
from typing import TYPE_CHECKING

import click

from numawise.cli.options import say, say_remarks
from numawise.errors import quoted

if TYPE_CHECKING:
    from numawise.apps.launch.holds import Holdings

EXAMPLES = """\b
Examples:
  numawise ps
  numawise ps --watch 2
  numawise ps --user alice
  numawise ps -o json | jq '.holds[] | select(.user == "alice")'
"""


@click.command("ps", epilog=EXAMPLES)
@click.option(
    "--watch", metavar="SECONDS", type=click.FloatRange(0.1, 3600), help="Refresh the list this often."
)
@click.option("--user", metavar="NAME", default="", help="Holds of this user only.")
@click.option("-o", "--output", type=click.Choice(["text", "json", "name"]), default="text")
@click.pass_context
def command(context: click.Context, watch: float | None, user: str, output: str) -> int:
    """Who holds which CPUs, memory, GPUs and other devices; and what is free.

    Owners that have died are left out; 'numawise reap' frees what they held, as does every other command that
    changes the ledger.
    """
    from numawise.apps.launch.run import capacity_here, open_holdings  # noqa: PLC0415 - keeps --help quick
    from numawise.host.settings import read_settings  # noqa: PLC0415
    from numawise.render.terminal import CLEAR_SCREEN  # noqa: PLC0415

    if user:
        check_user(user)
    settings = read_settings()
    with open_holdings(capacity_here(settings), os.environ, settings) as holdings:
        while True:
            if watch and output == "text" and sys.stdout.isatty():
                click.echo(CLEAR_SCREEN, nl=False)
            if output != "name":
                say_remarks(holdings.place.warnings)
            _show(holdings, user, output, context.color)
            if not watch:
                return 0
            sys.stdout.flush()
            time.sleep(watch)


def check_user(name: str) -> None:
    """Refuse a user whom the system does not know."""
    import pwd  # noqa: PLC0415 - rarely asked

    from numawise.errors import InputError  # noqa: PLC0415

    try:
        pwd.getpwnam(name)
    except KeyError:
        raise InputError(
            f"there is no user {quoted(name)}", field="--user", advice="see the names in 'numawise ps'"
        ) from None


def _show(holdings: "Holdings", user: str, output: str, color: bool | None) -> None:
    from numawise.apps.launch.box import promisable  # noqa: PLC0415
    from numawise.render import holds as words  # noqa: PLC0415
    from numawise.render.hold_table import write_free, write_holds  # noqa: PLC0415
    from numawise.render.table import sentences  # noqa: PLC0415
    from numawise.sets import format_ids  # noqa: PLC0415

    if output == "json":
        from numawise.apps.launch.box import hold_list  # noqa: PLC0415

        click.echo(json.dumps(hold_list(holdings, user), indent=2))
        return
    every = holdings.live()
    holds = tuple(hold for hold in every if user in ("", hold.owner.user))
    steps = holdings.steps()
    if output == "name":
        for hold in holds:
            click.echo(hold.name)
        return
    if holds:
        write_holds(holds, holdings.capacity, every, sys.stdout, color=color, steps=steps)
        click.echo()
    if holdings.ledger.unknown:
        sentences(words.FREE_UNKNOWN, sys.stdout)
    else:
        write_free(holdings.capacity, every, promisable(holdings, every), sys.stdout, color=color)
    if holdings.capacity.reserved:
        sentences(f"kept for the system: CPUs {format_ids(holdings.capacity.reserved)}", sys.stdout)
    if left := words.time_left_text(holds):
        sentences(left, sys.stdout)
    for waiting in holdings.waiting(every):
        sentences(words.waiting_text(waiting), sys.stdout)
    for sentence in (*holdings.capacity.remarks, *holdings.silent):
        say(sentence)
