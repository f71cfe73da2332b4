"""The pages about planning nodes and their state files: commands print what is shown there."""

import re
from pathlib import Path

import pytest
from tests.cli.run import program

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "docs/how-to" / name for name in ("plan-a-node.md", "state-files.md", "switch-policy.md")]
SESSION = re.compile(r"```console\n\$ (numawise [^\n]*)\n((?!\$ ).+?)```", re.DOTALL)


def sessions() -> list[tuple[str, str]]:
    return [found for page in PAGES for found in SESSION.findall(page.read_text())]


@pytest.mark.parametrize(
    ("command", "output"), sessions(), ids=lambda text: text.split()[2] if "--machine" in text else ""
)
def test_pages_show_real_output(command: str, output: str) -> None:
    assert program(*command.split()[1:], COLUMNS="200").out == output


def test_every_page_has_some() -> None:
    assert len(sessions()) == 8
    assert all(SESSION.search(page.read_text()) for page in PAGES)
