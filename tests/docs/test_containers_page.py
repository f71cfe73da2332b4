"""The how-to about containers shows what the commands really print."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "how-to" / "containers.md"


def sessions() -> list[tuple[str, str]]:
    """Commands for a machine of a file, with their output."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, output = re.fullmatch(r"((?:[^\n]*\\\n)*[^\n]*\n)(.*)", part, re.DOTALL).groups()  # type: ignore[union-attr]
            if "--machine" in command:
                found.append((command, output))
    return found


@pytest.mark.parametrize(("command", "output"), sessions())
def test_page_shows_real_output(command: str, output: str) -> None:
    words = shlex.split(command.replace("\\\n", " "))
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout + done.stderr == output


def test_all_four_examples_are_there() -> None:
    assert len(sessions()) >= 5
