"""Options that several commands share, and what launchers print on standard error."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from numawise.errors import InputError

if TYPE_CHECKING:
    from numawise.results.placement import Capacity, NoRoom, Started


def output_option(*forms: str, words: str = "Form of the answer.") -> Callable[[Any], Any]:
    """``-o`` with these forms, the first unless another is asked for."""
    return click.option(
        "-o", "--output", type=click.Choice(forms), default=forms[0], show_default=True, help=words
    )


# --------------------------------------------------------------------------------------------------
# The option by which commands take a bundle.


bundle_option = click.option(
    "--bundle",
    metavar="FILE",
    help="A node as 'numawise bundle' collected it: machine, configuration, state files and release at once.",
)


# --------------------------------------------------------------------------------------------------
# Commands that run another: what stands after ``--`` is that one's, all before it is ours.


COMMAND = "numawise.command"


class BeforeDashes(click.Command):
    """A command whose last part, after ``--``, is left as it is; ``command_of`` gives it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Cut off what stands after the first ``--``."""
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[COMMAND] = tuple(args[at + 1 :])
        ctx.allow_extra_args, ctx.allow_interspersed_args = True, False
        rest = super().parse_args(ctx, args[:at])
        words = ctx.args
        if words and not ctx.resilient_parsing:
            meant = " ".join([*words, *(["--", *args[at + 1 :]] if at < len(args) else [])])
            raise InputError(
                f"{words[0]!r} stands where an option is expected",
                advice=f"write -- before the command: {ctx.command_path} [OPTIONS] -- {meant}",
            )
        return rest


def command_of(context: click.Context) -> tuple[str, ...]:
    """The words after ``--``."""
    found: tuple[str, ...] = context.meta.get(COMMAND, ())
    return found


def required_command(context: click.Context) -> tuple[str, ...]:
    """The words after ``--``; refused when there are none."""
    found = command_of(context)
    if not found:
        raise InputError(
            "there is no command to run", advice=f"write it after --: {context.command_path} -- COMMAND"
        )
    return found


# --------------------------------------------------------------------------------------------------
# What launchers say on standard error, beside their job's own words.


def say(text: str) -> None:
    """One line, at once."""
    print(f"numawise: {text}", file=sys.stderr, flush=True)  # noqa: T201 - click.echo is slower than the job


class Teller:
    """Tells a user how it goes with a job, unless that is not wanted."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet

    def started(self, started: "Started") -> None:
        """What the job got."""
        from numawise.render.holds import started_line  # noqa: PLC0415 - keeps --help quick

        if not self.quiet:
            say(started_line(started))
            for remark in started.remarks:
                say(f"  {remark}")

    def waiting(self, found: "NoRoom") -> None:
        """Why it does not start yet."""
        if not self.quiet:
            say(f"waiting: {found.reason}")

    def ended(self, ended: "int | NoRoom", capacity: "Capacity | None" = None) -> int:
        """The exit status of a job, or of there being no room for it, which is told with who holds what."""
        if isinstance(ended, int):
            return ended
        from numawise.apps.launch.run import capacity_here  # noqa: PLC0415 - keeps --help quick
        from numawise.host.settings import read_settings  # noqa: PLC0415
        from numawise.render.holds import no_room_lines  # noqa: PLC0415

        for line in no_room_lines(ended, capacity or capacity_here(read_settings())):
            say(line)
        return 1
