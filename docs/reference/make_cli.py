"""Write docs/reference/cli.md from the commands themselves: ``python docs/reference/make_cli.py``."""

from pathlib import Path

import click

from numawise.cli.main import COMMANDS, group

PAGE = Path(__file__).parent / "cli.md"
INTRO = """# Command line

Made from the commands by `python docs/reference/make_cli.py`.

Exit status: 0 yes · 1 no (some pod was not admitted, a scenario could not be run) · 2 bad input, with one
sentence on standard error that names file, line and field · 70 an error in numawise itself · 130
interrupted. `NO_COLOR` switches
colours off; `NUMAWISE_DEBUG=1` shows a traceback for errors in numawise itself.
"""


def page() -> str:
    """The whole page."""
    parts = [INTRO]
    context = click.Context(group, info_name="numawise", max_content_width=100, terminal_width=100)
    parts.append(f"## numawise\n\n```\n{group.get_help(context)}\n```\n")
    for name in sorted(COMMANDS):
        command = group.get_command(context, name)
        assert command is not None
        inner = click.Context(
            command, info_name=name, parent=context, max_content_width=100, terminal_width=100
        )
        parts.append(f"## numawise {name}\n\n```\n{command.get_help(inner)}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
