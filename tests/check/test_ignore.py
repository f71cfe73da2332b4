"""Comments that silence a finding."""

from pathlib import Path

import pytest

from numawise.apps.check.lint import ignored_in
from tests.check.folder import HEAD, check, codes, one

SILENT = "numawise: ignore"


# fmt: off
@pytest.mark.parametrize(("text", "told"), [
    pytest.param(f"{HEAD}topologyManagerPolicy: strict\n",                                              True,  id="no comment"),
    pytest.param(f"{HEAD}topologyManagerPolicy: strict  # {SILENT} NW121\n",                            False, id="on the line"),
    pytest.param(f"{HEAD}topologyManagerPolicy: strict  #{SILENT} nw121\n",                             False, id="in small letters"),
    pytest.param(f"{HEAD}topologyManagerPolicy: strict  # {SILENT} NW115, NW121 we know\n",             False, id="several, and why"),
    pytest.param(f"{HEAD}# {SILENT} NW121\ntopologyManagerPolicy: strict\n",                            False, id="on the line above"),
    pytest.param(f"{HEAD}# {SILENT} NW121\n# another comment\n\ntopologyManagerPolicy: strict\n",       False, id="comments between"),
    pytest.param(f"{HEAD}# {SILENT} NW121\nmaxPods: 5\ntopologyManagerPolicy: strict\n",                True,  id="a line too far"),
    pytest.param(f"# {SILENT} NW121\n{HEAD}topologyManagerPolicy: strict\n",                            False, id="for the whole file"),
    pytest.param(f"# a licence\n#\n# {SILENT} NW121\n---\n{HEAD}topologyManagerPolicy: strict\n",       False, id="among the first comments"),
    pytest.param(f"# {SILENT} NW122\n{HEAD}topologyManagerPolicy: strict\n",                            True,  id="another code"),
    pytest.param(f"{HEAD}topologyManagerPolicy: strict  # numawise: ignored NW121\n",                   True,  id="another word"),
    pytest.param(f"{HEAD}topologyManagerPolicy: 'strict# {SILENT} NW121'\n",                            True,  id="no comment but a value"),
])
def test_comments(text: str, told: bool, tmp_path: Path) -> None:  # noqa: FBT001 - a column
    assert ("NW121" in codes(check(tmp_path, {"kubelet.yaml": text}))) == told


@pytest.mark.parametrize(("comment", "unknown"), [
    pytest.param("NW121",         [],          id="known"),
    pytest.param("NW999",         ["NW999"],   id="unknown"),
    pytest.param("NW121 NW999",   ["NW999"],   id="one of two"),
    pytest.param("NW121 because", [],          id="a reason"),
    pytest.param("cpus",          ["cpus"],    id="no code at all"),
    pytest.param("",              [],          id="nothing"),
])
def test_unknown_codes_are_told(comment: str, unknown: list[str]) -> None:
    found = ignored_in(f"a: 1\nb: 2  # {SILENT} {comment}\n")
    assert list(found.unknown) == [(2, word) for word in unknown]
# fmt: on


def test_an_unknown_code_is_a_finding(tmp_path: Path) -> None:
    found = one(check(tmp_path, {"kubelet.yaml": f"{HEAD}maxPods: 5  # {SILENT} NW12\n"}), "NW001")
    assert (found.line, found.message) == (3, "there is no code NW12")


def test_what_was_left_out_is_counted(tmp_path: Path) -> None:
    report = check(
        tmp_path, {"kubelet.yaml": f"# {SILENT} NW121 NW130\n{HEAD}topologyManagerPolicy: strict\n"}
    )
    assert not report.findings
    assert report.ignored == 1
    assert not report.failed(strict=True)
