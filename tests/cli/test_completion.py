"""Completion in shells and in kubectl: what may follow, as each of them asks for it."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from numawise.cli.completion import kubectl
from numawise.cli.main import COMMANDS
from numawise.machine.catalog import CATALOG
from tests.cli.run import process, program

ROOT = Path(__file__).parents[2]
PLUGIN = "kubectl_complete-numawise"


def answered(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[list[str], str]:
    """The words that kubectl is told, and the directive behind them."""
    assert kubectl(words) == 0
    *lines, directive = capsys.readouterr().out.splitlines()
    return [line.partition("\t")[0] for line in lines], directive


@pytest.mark.parametrize(("words", "expected", "directive"), [
    ([""],                                  sorted(COMMANDS),              ":4"),
    (["che"],                               ["check"],                     ":4"),
    (["plan", ""],                          ["kubelet", "pod", "switch"],  ":4"),
    (["check", "--bri"],                    ["--brief"],                   ":4"),
    (["check", "--explain", "NW41"],        ["NW410", "NW411", "NW412", "NW413", "NW414", "NW415"], ":4"),
    (["check", "-o", ""],                   ["text", "json", "sarif", "github"], ":4"),
    (["simulate", "--kube", "1.33"],        ["1.33"],                      ":4"),
    (["simulate", "--machine", "dgx-"],     [name for name in CATALOG if name.startswith("dgx-")], ":0"),
    (["simulate", "--kubelet-config", ""],  [],                            ":0"),
    (["check", ""],                         [],                            ":0"),
    (["no-such-command", "x"],              [],                            ":0"),
])  # fmt: skip
def test_kubectl_is_told_what_may_follow(
    words: list[str], expected: list[str], directive: str, capsys: pytest.CaptureFixture[str]
) -> None:
    names, told = answered(capsys, *words)
    assert (sorted(names), told) == (sorted(expected), directive)


def test_the_programs_for_kubectl_are_installed_with_the_command() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["kubectl-numawise"] == scripts["numawise"]
    assert scripts[PLUGIN] == "numawise.cli.completion:kubectl"


def test_as_a_program_of_its_own() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "numawise.cli.completion", "state", "ver"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.splitlines()[0].startswith("verify\t")
    assert ran.stdout.splitlines()[-1] == ":4"


@pytest.mark.parametrize(("shell", "words"), [
    ("bash", "complete -o nosort -F _numawise_completion numawise"),
    ("zsh",  "#compdef numawise"),
    ("fish", "complete --no-files --command numawise"),
])  # fmt: skip
def test_each_shell_gets_what_it_loads(shell: str, words: str) -> None:
    ran = program(_NUMAWISE_COMPLETE=f"{shell}_source")
    assert ran.status == 0
    assert words in ran.out


def test_a_shell_that_is_not_known() -> None:
    ran = program(_NUMAWISE_COMPLETE="tcsh_source")
    assert ran.status == 2
    assert "'tcsh_source' is not known; completion is for bash, zsh and fish" in ran.err


def test_bash_takes_files_before_names() -> None:
    ran = program(_NUMAWISE_COMPLETE="bash_complete", COMP_WORDS="numawise show dgx-h", COMP_CWORD="2")
    assert ran.out.splitlines()[0].startswith("file,")
    ran = program(_NUMAWISE_COMPLETE="bash_complete", COMP_WORDS="numawise sim", COMP_CWORD="1")
    assert ran.out.splitlines() == ["plain,simulate"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_itself_completes(tmp_path: Path) -> None:
    script = tmp_path / "numawise.bash"
    script.write_text(process(_NUMAWISE_COMPLETE="bash_source").out)
    wrapper = tmp_path / "numawise"
    wrapper.write_text(f'#!/bin/sh\nexec {sys.executable} -m numawise "$@"\n')
    wrapper.chmod(0o755)
    lines = f"source {script}; COMP_WORDS=(numawise state v); COMP_CWORD=2"
    told = subprocess.run(
        ["bash", "-c", f"{lines}; _numawise_completion {wrapper}; echo ${{COMPREPLY[@]}}"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert told.stdout.strip() == "verify"
