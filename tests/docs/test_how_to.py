"""How-to pages that show what a command prints: it prints just that."""

import re
from pathlib import Path

import pytest
from tests.cli.run import program

ROOT = Path(__file__).parent.parent.parent
PAGES = [
    ROOT / "docs/how-to" / name
    for name in ("ranks.md", "flags.md", "run-jobs.md", "devices-from-claims.md", "run-the-agent.md")
]
CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)


def sessions(page: Path) -> list[tuple[str, str]]:
    found = []
    for block in CONSOLE.findall(page.read_text()):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            if output:
                found.append((command, output))
    return found


@pytest.mark.parametrize(("command", "output"), [pair for page in PAGES for pair in sessions(page)])
def test_pages_show_real_output(command: str, output: str) -> None:
    name, *words = command.split()
    assert name == "numawise"
    answer = program(*words, COLUMNS="200")
    printed = answer.out or answer.err
    beginning, more, rest = output.partition("…\n")
    if more and not rest and beginning.endswith("\n"):  # a line of its own: and so on
        assert printed.startswith(beginning)
        assert len(printed) > len(beginning)
    else:
        assert printed == output
