"""Every code: its example finds it, the fixed files do not, and its page is what the registry and the example say."""

import re
import sys
from pathlib import Path

import pytest

from numawise.apps.check.lint import lint
from numawise.render.findings import code_page, explained
from numawise.results.finding import codes
from numawise.rules.versions import parse_version
from tests.check.examples import Example, examples, inside, output, write
from tests.check.folder import named

CODES = codes()
ROOT = Path(__file__).parent.parent.parent
PAGES = ROOT / "docs" / "reference" / "findings"
EXAMPLES = {one.code: one for one in examples()}


def run(shown: Example, folder: Path) -> set[str]:
    """The codes that the example's command finds."""
    _, told = output(f"{shown.command} -o github", folder)
    return {line.split("title=")[1].split(" ")[0] for line in told.splitlines()}


@pytest.mark.parametrize("code", sorted(CODES))
def test_the_example_finds_it_and_the_fix_removes_it(code: str, tmp_path: Path) -> None:
    shown = EXAMPLES[code]
    write(shown.files, tmp_path)
    assert code in run(shown, tmp_path)
    assert shown.fixed
    write(shown.fixed, tmp_path)
    assert code not in run(shown, tmp_path)


def test_no_example_is_left_over() -> None:
    assert set(EXAMPLES) == set(CODES)


@pytest.mark.parametrize("code", sorted(CODES))
def test_entries_are_whole(code: str) -> None:
    told = CODES[code]
    assert not told.title.endswith(".")
    for text in (told.why, told.fix, told.about):
        assert (
            text[0].isupper()
            or text[0] in "`'"
            or text[0].isdigit()
            or text.startswith(("systemd", "prefer"))
        )
        assert text.endswith(".")
        assert "  " not in text
    assert code_page(explained(code.lower())).startswith(f"{code} {told.title}")


def test_pages_are_up_to_date() -> None:
    sys.path.insert(0, str(ROOT / "docs" / "reference"))
    try:
        import make_findings  # noqa: PLC0415 - lies in the documentation
    finally:
        sys.path.pop(0)
    pages = make_findings.pages()
    assert {path.name for path in PAGES.glob("*.md")} == set(pages)
    stale = [name for name, text in pages.items() if (PAGES / name).read_text() != text]
    assert not stale, "run python docs/reference/make_findings.py"


def test_errors_fail_the_check(tmp_path: Path) -> None:
    for code, shown in sorted(EXAMPLES.items()):
        folder = tmp_path / code
        write(shown.files, folder)
        errors = [
            line
            for line in output(f"{shown.command} -o github", folder)[1].splitlines()
            if line.startswith("::error")
        ]
        assert output(shown.command, folder)[0] == (1 if errors else 0), code


@pytest.mark.parametrize(("strict", "status"), [("", 0), ("--strict", 1)])
def test_strict_minds_warnings(strict: str, status: int, tmp_path: Path) -> None:
    shown = EXAMPLES["NW130"]
    write(shown.files, tmp_path)
    assert output(f"{shown.command} {strict}", tmp_path)[0] == status


def test_select_and_ignore(tmp_path: Path) -> None:
    shown = EXAMPLES["NW410"]
    write(shown.files, tmp_path)
    with inside(tmp_path):
        given = named(pods=("pod.yaml",), version=parse_version("1.36"))
        assert {one.code for one in lint(**given, select=["NW4"]).findings} == {"NW410"}
        assert lint(**given, ignore=["NW41"]).ignored == 1


def test_every_code_in_the_sources_is_registered_and_every_registered_code_is_used() -> None:
    sources = (path.read_text() for path in (ROOT / "src").rglob("*.py"))
    used = {code for text in sources for code in re.findall(r'"(NW\d{3})"', text)}
    assert used == set(CODES)
