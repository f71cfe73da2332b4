"""Run the command line: inside this process, or as a program of its own."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from numawise.cli.main import main

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of it."""

    status: int
    out: str
    err: str


def numawise(capsys: pytest.CaptureFixture[str], *arguments: object) -> Ran:
    """The entry point in this process."""
    capsys.readouterr()
    status = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return Ran(status, captured.out, captured.err)


def program(*arguments: object, stdin: str | bytes = "", cwd: Path = ROOT, **environment: str) -> Ran:
    """``python -m numawise`` as a program of its own."""
    given = stdin.encode() if isinstance(stdin, str) else stdin
    plain = {
        name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "NUMAWISE_DEBUG")
    }
    done = subprocess.run(
        [sys.executable, "-m", "numawise", *map(str, arguments)],
        input=given,
        capture_output=True,
        check=False,
        cwd=cwd,
        env={**plain, **environment},
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


def refused(ran: Ran, *words: str) -> None:
    """Bad input: status 2, nothing on standard output, one sentence on standard error that names these."""
    assert ran.status == 2, ran
    assert not ran.out
    assert "Traceback" not in ran.err
    assert ran.err.endswith("\n")
    (line,) = ran.err.splitlines()
    assert line.startswith("numawise: ")
    for word in words:
        assert word in line, line
