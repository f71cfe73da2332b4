"""``numawise top``: what the jobs on this host use, again and again."""

import json
import os
import sys
import time
from typing import TYPE_CHECKING

import click

from numawise.cli.options import say, say_remarks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numawise.apps.launch.holds import Holdings
    from numawise.results.placement import Hold, JobUse

EXAMPLES = """\b
Examples:
  numawise top
  numawise top --interval 10 --user alice
  numawise top --count 1 -o json
"""


@click.command("top", epilog=EXAMPLES)
@click.option(
    "--interval",
    metavar="SECONDS",
    type=click.FloatRange(0.1, 3600),
    default=2.0,
    show_default=True,
    help="Time between two looks.",
)
@click.option(
    "--count",
    metavar="N",
    type=click.IntRange(1),
    help="Stop after so many lists; 1 where output is not a terminal.",
)
@click.option("--user", metavar="NAME", default="", help="Jobs of this user only.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")
@click.pass_context
def command(context: click.Context, interval: float, count: int | None, user: str, output: str) -> int:
    """CPUs that jobs keep busy and memory they use, the busiest first, with what they hold; until Ctrl-C.

    BUSY counts CPUs: 2.5 is two and a half.  A job without a control group is counted by its processes, so
    memory that they share counts for each of them.
    """
    from numawise.apps.launch.box import UseMeter, hold_uses  # noqa: PLC0415 - keeps --help quick
    from numawise.apps.launch.run import capacity_here, open_holdings  # noqa: PLC0415
    from numawise.cli.ps import check_user  # noqa: PLC0415
    from numawise.host.settings import read_settings  # noqa: PLC0415
    from numawise.render.terminal import CLEAR_SCREEN  # noqa: PLC0415

    if user:
        check_user(user)
    live = output == "text" and sys.stdout.isatty()
    left = count if count is not None else (-1 if live else 1)
    settings = read_settings()
    with open_holdings(capacity_here(settings), os.environ, settings) as holdings:
        if output == "text":
            say_remarks(holdings.place.warnings)
        meter = UseMeter(holdings)
        meter.look(holdings.live())
        while left:
            time.sleep(interval)
            holdings.silent = ()
            every = holdings.live()
            holds = [hold for hold in every if user in ("", hold.owner.user)]
            uses = meter.look(every)
            if output == "json":
                click.echo(json.dumps(hold_uses(holdings, holds, uses, meter.seconds), indent=2))
            else:
                if live:
                    click.echo(CLEAR_SCREEN, nl=False)
                _show(holdings, holds, every, uses, context.color)
            sys.stdout.flush()
            left -= 1
    return 0


def _show(
    holdings: "Holdings",
    holds: "Sequence[Hold]",
    every: "Sequence[Hold]",
    uses: "Mapping[tuple[int, str], JobUse]",
    color: bool | None,
) -> None:
    from numawise.render import holds as words  # noqa: PLC0415
    from numawise.render.hold_table import write_uses  # noqa: PLC0415
    from numawise.render.table import sentences  # noqa: PLC0415

    if holds:
        write_uses(holds, holdings.capacity, every, uses, sys.stdout, color=color)
    else:
        click.echo(f"nothing {'that can be read ' if holdings.ledger.unknown else ''}is held")
    for waiting in holdings.waiting(every):
        sentences(words.waiting_text(waiting), sys.stdout)
    for sentence in holdings.silent:
        say(sentence)
