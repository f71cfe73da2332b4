"""The how-to about logs shows what the command really prints."""

import re
import shlex
from pathlib import Path

import pytest
from tests.cli.run import ROOT, program

PAGE = ROOT / "docs" / "how-to" / "read-a-kubelet-log.md"
CONSOLE = re.compile(r"```console\n\$ (numawise [^\n]*)\n(.*?)```", re.DOTALL)
SESSIONS = CONSOLE.findall(PAGE.read_text())


@pytest.mark.parametrize(("command", "output"), SESSIONS)
def test_page_shows_real_output(command: str, output: str) -> None:
    words: list[str] = []
    for word in shlex.split(command)[1:]:
        words += sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(word)) if "*" in word else [word]
    assert program(*words).out == output


def test_page_has_sessions() -> None:
    assert len(SESSIONS) == 4


def test_the_example_is_the_recorded_one() -> None:
    recorded = ROOT / "tests" / "recorded" / "kubelet-logs" / "incident.log"
    assert (Path(ROOT) / "examples" / "incident-server" / "kubelet.log").read_bytes() == recorded.read_bytes()
