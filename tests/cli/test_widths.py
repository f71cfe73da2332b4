"""Every command that prints tables or sentences, on terminals of several widths: no word is cut, no line too long."""

import io
import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from numawise.cli.main import main
from numawise.render.plan import COMMAND
from numawise.render.words import columns
from tests import needs

ROOT = Path(__file__).parents[2]
GPU = "examples/8gpu-server"
NODE = f"--machine {GPU}/machine.yaml --kubelet-config {GPU}/kubelet.yaml"
FLEET = f"--nodes {GPU}/machine.yaml:2 --kubelet-config {GPU}/kubelet.yaml"
COMMANDS = (
    f"simulate {NODE} {GPU}/pods",
    f"simulate {NODE} --fill {GPU}/pods/01-single-gpu-training.yaml",
    f"simulate {NODE} --steps {GPU}/day.yaml",
    f"simulate {FLEET} {GPU}/pods",
    f"simulate {NODE} --resize pod=ai-training-gpu0,container=training,cpu=64 {GPU}/pods",
    f"simulate {NODE} --compare {GPU}/kubelet-single-numa-node.yaml {GPU}/pods",
    f"simulate {NODE} --compare-kube 1.26,1.34 {GPU}/pods",
    "simulate --machine 3gpu-server --kubelet-config examples/3gpu-server/kubelet.yaml examples/3gpu-server/pods",
    f"why {NODE} {GPU}/pods",
    f"why {NODE} {GPU}/pods/04-five-gpu-training.yaml",
    "why --log examples/incident-server/kubelet.log",
    f"check {NODE} {GPU}/pods",
    f"check --kubelet-config {GPU}/kubelet-refused.yaml",
    f"state show {GPU}/state/after-reboot",
    f"state verify {GPU}/state/after-reboot --machine {GPU}/machine.yaml",
    f"plan switch {GPU}/kubelet-before.yaml {GPU}/kubelet.yaml --machine {GPU}/machine.yaml {GPU}/pods",
    f"show {GPU}/machine.yaml",
    "machine list",
    "machine show dgx-h100",
    "doctor",
    pytest.param("ps", marks=[needs.PROC, needs.SYS]),
    "discover",
)


class Terminal(io.TextIOWrapper):
    """A standard output that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def printed(command: str, width: int) -> str:
    """What a command prints; ``width`` 0: into a pipe."""
    kind = Terminal if width else io.TextIOWrapper
    out = kind(io.BytesIO(), encoding="utf-8", write_through=True)
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(io.StringIO()):
        patch.setattr(sys, "stdin", io.StringIO())
        patch.chdir(ROOT)
        patch.setenv("TERM", "dumb")
        patch.setenv("COLUMNS", str(width or 1000))
        main(command.split())
    data: bytes = out.buffer.getvalue()  # type: ignore[attr-defined]
    return data.decode()


def words_of(text: str) -> set[str]:
    return {word for word in re.split(r"[\s,=]+", text) if re.search(r"\w", word)}


def is_cut(word: str, whole: set[str]) -> bool:
    """True when a word is the beginning of another, and is none itself."""
    return word not in whole and any(other.startswith(word) and len(word) > 2 for other in whole)


@pytest.mark.parametrize("command", COMMANDS)
def test_no_word_is_cut_and_no_line_is_too_long(command: str) -> None:
    whole = words_of(printed(command, 0)) | words_of(printed(command, 500))
    assert whole
    for width in (60, 80, 100, 200):
        text = printed(command, width)
        for line in text.splitlines():
            pasted = command.startswith("plan switch") and line.startswith(COMMAND)
            assert pasted or columns(line) <= width or not re.search(r"\S[ ,=]+\S", line.strip()), (
                f"{width}: {line}"
            )
        assert not [word for word in words_of(text) if is_cut(word, whole)], width
