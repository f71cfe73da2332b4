"""Style, types and layers: what ``make check`` runs; sizes of modules and names of classes."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
MOST_LINES = 500
CLASS = re.compile(r"^class ([A-Za-z]\w*)", re.MULTILINE)
"""Classes that other modules see; a name of its own may be used again by a module for itself."""


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["ruff", "check", "."], id="ruff"),
        pytest.param(["ruff", "format", "--check", "."], id="format"),
        pytest.param(["mypy"], id="mypy"),
        pytest.param(["lint-imports"], id="import-linter"),
    ],
)
def test_tool_is_content(command: list[str]) -> None:
    tool = Path(sys.executable).parent / command[0]
    done = subprocess.run([tool, *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_modules_are_short() -> None:
    """About 300 lines, at most 500; past that a module is split by what it decides."""
    long = {
        str(path.relative_to(ROOT)): lines
        for ending in ("*.py", "*.js")
        for path in (ROOT / "src").rglob(ending)
        if (lines := path.read_text().count("\n")) > MOST_LINES
    }
    assert not long


def test_the_name_of_a_class_has_one_meaning() -> None:
    places: dict[str, list[str]] = {}
    for path in (ROOT / "src").rglob("*.py"):
        for name in CLASS.findall(path.read_text()):
            places.setdefault(name, []).append(str(path.relative_to(ROOT)))
    assert len(places) > 500
    assert not {name: paths for name, paths in places.items() if len(paths) > 1}
