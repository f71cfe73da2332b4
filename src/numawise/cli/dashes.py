"""Commands that run another: what stands after ``--`` is that one's, all before it is ours."""

import click

from numawise.errors import InputError

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
