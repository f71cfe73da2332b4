"""The command as a whole: help, version, exit statuses, mistakes on the command line."""

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from numawise import __version__
from numawise.cli.main import CHANGES, COMMANDS, MEANT, group
from tests.cli.run import ROOT, numawise, process

HEAVY = ("yaml", "msgspec", "rich", "numawise.engine", "numawise.codec", "numawise.apps")


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    ran = numawise(capsys, "--help")
    assert ran.status == 0
    assert not ran.err
    told = " ".join(ran.out.split())
    for name, sentence in COMMANDS.items():
        assert f"{name} {sentence}" in told


def commands_of(name: str) -> list[list[str]]:
    """The words of a command, or of each command below it."""
    command = group.get_command(click.Context(group), name)
    return [[name, below] for below in command.commands] if isinstance(command, click.Group) else [[name]]


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["-h"],
        ["--version"],
        *([*words, "--help"] for name in COMMANDS for words in commands_of(name)),
    ],
    ids=" ".join,
)
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    code = (
        "import sys\nfrom numawise.cli.main import main\n"
        "status = main(sys.argv[1:])\n"
        f"heavy = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "sys.exit(f'imported {heavy}' if heavy or status else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help_and_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = ""
    for words in commands_of(name):
        ran = numawise(capsys, *words, "--help")
        assert ran.status == 0
        assert ran.out.startswith(f"Usage: numawise {' '.join(words)} ")
        told += ran.out
    assert re.search(rf"^ +(.*\| )?numawise {name}\b", told, re.MULTILINE)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_says_what_it_is_for(name: str) -> None:
    assert COMMANDS[name].endswith((".", "?"))
    assert len(COMMANDS[name]) < 100


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    ran = numawise(capsys, "--version")
    assert (ran.status, ran.out) == (0, f"numawise {__version__}\n")


@pytest.mark.parametrize(("arguments", "words"), [
    (["--local_rank=1", "bind", "--", "x"], "start deepspeed with --no_local_rank"),
    (["simulat"],                        "Did you mean 'simulate'?"),
    (["explain"],                        "Did you mean 'why'?"),
    (["get", "pods"],                    "Did you mean 'nodes' or 'ps' or 'why'?"),
    (["Lint"],                           "Did you mean 'check'?"),
    (["docs"],                           "Did you mean 'help'?"),
    (["version"],                        "Did you mean '--version'?"),
    (["help", "nonsense"],               "No such command 'nonsense'"),
    (["help", "machine", "nonsense"],    "No such command 'nonsense'"),
    (["nonsense"],                       "No such command 'nonsense'"),
    (["simulate", "p"],                  "Missing option '--machine'"),
    (["simulate", "--machin", "x"],      "No such option"),
    (["simulate", "--machine", "m", "--kubelet-config", "k"], "PODS"),
    (["simulate", "-o", "xml", "--machine", "m", "--kubelet-config", "k", "p"], "'xml' is not one of"),
    (["replay"],                         "FILE"),
    (["replay", "--jobs", "0", "x"],     "0 is not in the range"),
    (["replay", "--jobs", "many", "x"],  "'many' is not a valid integer"),
])  # fmt: skip
def test_mistakes_on_the_command_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = numawise(capsys, *arguments)
    assert ran.status == 2
    assert not ran.out
    assert words in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    "words", [[], ["why"], ["machine"], ["machine", "list"], ["state", "repair"]], ids=" ".join
)
def test_help_in_words(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    asked, usual = numawise(capsys, "help", *words), numawise(capsys, *words, "--help")
    assert (asked.status, asked.err) == (0, "")
    assert asked.out == usual.out


def test_help_of_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert numawise(capsys, "help", "help") == numawise(capsys, "help")


@pytest.mark.parametrize(
    "words",
    [["run", "--", "touch"], ["run", "touch"], ["exec", "1", "--", "touch"], ["docker", "run", "touch"]],
)
def test_help_runs_nothing(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = numawise(capsys, "help", *words, tmp_path / "made")
    assert ran.status == 0
    assert ran.out == numawise(capsys, words[0], "--help").out
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_a_word_that_looks_like_a_command_that_changes_something_is_not_taken_for_it(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert name in COMMANDS
    for word in (name[:-1], f"{name}s", f"{name[1]}{name[0]}{name[2:]}"):
        ran = numawise(capsys, word)
        assert ran.status == 2
        assert not CHANGES & set(re.findall(r"'([a-z]+)'", ran.err.partition("Did you mean")[2]))


@pytest.mark.parametrize("word", sorted(MEANT))
def test_what_words_of_other_programs_mean_is_there(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert word not in COMMANDS
    for meant in MEANT[word]:
        first, *rest = meant.split()
        words = [first, *(one for one in rest if one.islower() and one[0] != "-")]
        asked = words if meant.startswith("-") else [] if words == ["help"] else [*words, "--help"]
        assert numawise(capsys, *(asked or ["help"])).status == 0


def test_the_program() -> None:
    ran = process("--version")
    assert (ran.status, ran.out, ran.err) == (0, f"numawise {__version__}\n", "")
    assert process("simulate", "--machine", "m.yaml", "--kubelet-config", "k.yaml", "p.yaml").status == 2


def test_an_unexpected_error_is_one_line_without_a_traceback() -> None:
    """An environment that breaks an import stands for any mistake of ours."""
    code = (
        "import sys\nsys.modules['numawise.codec.tracefile'] = None\n"
        "from numawise.cli.main import main\nsys.exit(main(['replay', 'x']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 70
    (line,) = done.stderr.splitlines()
    assert line.startswith("numawise: internal error: ModuleNotFoundError")
    assert "NUMAWISE_DEBUG=1" in line


def test_a_reader_that_goes_away_is_not_complained_about() -> None:
    command = (
        f"{sys.executable} -m numawise replay --jobs 1 tests/recorded/v1.36.4/doc-cases.jsonl.gz | head -c 1"
    )
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.stdout, done.stderr) == ("{", "")
