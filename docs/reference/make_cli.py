"""Write docs/reference/cli.md from the commands themselves: ``python docs/reference/make_cli.py``."""

from collections.abc import Iterator
from pathlib import Path

import click

from numawise.cli.main import group

PAGE = Path(__file__).parent / "cli.md"
INTRO = """# Command line

Made from the commands by `python docs/reference/make_cli.py`.

Exit status: 0 yes · 1 no (some pod was not admitted, a scenario could not be run), also where standard
output is full or closed · 2 bad input, with one sentence on standard error that names file, line and field ·
3 this host · 4 the ledger · 5 the cluster · 70 an error in numawise itself · 130 interrupted · 141 the reader
has gone. `NO_COLOR` switches colours off; `NUMAWISE_DEBUG=1` shows a traceback for errors in numawise itself.

Text that comes from elsewhere (names, ids, lines of logs, file names) is printed with escapes such as
`\\x1b` in the place of control characters, marks of direction and bytes that are not UTF-8. JSON and YAML
have the escapes of their formats, so the data are the same. Values in errors are cut after 120 characters;
how long they are is said.
"""


def page() -> str:
    """The whole page."""
    context = click.Context(group, info_name="numawise", max_content_width=100, terminal_width=100)
    return "\n".join([INTRO, *sections(group, context, "numawise")])


def sections(command: click.Command, context: click.Context, name: str) -> Iterator[str]:
    """The help of a command, and of those below it."""
    yield f"## {name}\n\n```\n{command.get_help(context)}\n```\n"
    for inner in command.list_commands(context) if isinstance(command, click.Group) else ():
        found = command.get_command(context, inner)
        assert found is not None
        below = click.Context(
            found, info_name=inner, parent=context, max_content_width=100, terminal_width=100
        )
        yield from sections(found, below, f"{name} {inner}")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
