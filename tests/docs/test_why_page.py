"""The page about ``why`` shows what the command really prints."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.explain.asking import SMALL, why

from numawise.results.explanation import explanations_data

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "how-to" / "explain-a-rejection.md"
KINDS = ROOT / "docs" / "explanation" / "suggestions.md"
FIELDS = ROOT / "docs" / "reference" / "why-output.md"
ELSEWHERE = {"op", "path", "from", "value", "code", "text", "preferred", "admit", "left"}
"""Fields of JSON Patch, and those that the page tells together with others."""
BLOCK = re.compile(r"```console\n\$ (numawise why (?:[^\n]*\\\n)*[^\n]*\n)(.*?)```", re.DOTALL)


@pytest.mark.parametrize(("command", "output"), BLOCK.findall(PAGE.read_text()))
def test_output_is_real(command: str, output: str) -> None:
    words: list[str] = []
    for word in shlex.split(command.replace("\\\n", " "))[1:]:
        words += sorted(str(p.relative_to(ROOT)) for p in ROOT.glob(word)) if "*" in word else [word]
    done = subprocess.run(
        [sys.executable, "-m", "numawise", *words],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout + done.stderr == output


def test_there_are_examples_of_all_sources() -> None:
    assert len(BLOCK.findall(PAGE.read_text())) == 6


def test_every_kind_of_suggestion_is_told() -> None:
    source = "".join(path.read_text() for path in (ROOT / "src/numawise/explain").glob("*.py"))
    kinds = set(re.findall(r'Suggestion\(\s*"([a-z ]+)"', source)) | set(
        re.findall(r'_ranked_\w+\([^"]*"([a-z]+)"', source)
    )
    assert len(kinds) > 12
    for kind in kinds:
        assert f"`{kind}`" in KINDS.read_text(), kind


def test_every_field_of_the_output_is_told() -> None:
    found = why(SMALL, "single-numa-node", "c cpu=9 memory=1Gi", running=["r cpu=2 memory=1Gi"])

    def names(value: object) -> set[str]:
        if isinstance(value, dict):
            return set(value) | {name for one in value.values() for name in names(one)}
        return {name for one in value for name in names(one)} if isinstance(value, list) else set()

    page = FIELDS.read_text()
    for name in names(explanations_data([found])) - ELSEWHERE:
        assert f"{name}`" in page or f".{name}" in page or f"{name}[]" in page, name
