"""The how-to shows what the command prints."""

import re
from pathlib import Path

import pytest

from tests.check.examples import output

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "check-a-node.md"
SESSIONS = re.findall(r"```console\n\$ (numawise check [^\n]*)\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize(("command", "told"), SESSIONS)
def test_how_to_shows_real_output(command: str, told: str) -> None:
    assert output(command, ROOT)[1] == told


def test_there_is_something_to_show() -> None:
    assert len(SESSIONS) >= 4
