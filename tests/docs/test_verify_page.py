"""Every finding of ``verify`` has its line in the documentation."""

import re
from pathlib import Path

import pytest

from numawise.explain.placement import FILE_PAGES_REMOTE, MEMORY_REMOTE, MEMORY_SPILLED

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs/how-to/verify-a-job.md").read_text()
CODES = sorted(
    code
    for file in (ROOT / "src/numawise/apps/verify").glob("*.py")
    for code in re.findall(r'inding\(\s*"([a-z-]+)"', file.read_text())
)
CODES += [MEMORY_REMOTE, MEMORY_SPILLED, FILE_PAGES_REMOTE]


def test_there_are_findings() -> None:
    assert len(CODES) > 15


@pytest.mark.parametrize("code", CODES)
def test_a_finding_has_its_line(code: str) -> None:
    assert f"`{code}`" in PAGE.partition("## Findings")[2]
