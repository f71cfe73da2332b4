"""Run the command line: inside this process, or as a program of its own."""

import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
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
    """The entry point in this process, with its own input, folder and environment, and streams without a terminal."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    given = stdin.encode() if isinstance(stdin, str) else stdin
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(given))))
        patch.chdir(cwd)
        for name, value in environment.items():
            patch.setenv(name, value)
        status = main([str(argument) for argument in arguments])
    return Ran(status, *(stream.buffer.getvalue().decode() for stream in (out, err)))  # type: ignore[attr-defined]


def process(*arguments: object, stdin: str | bytes = "", cwd: Path = ROOT, **environment: str) -> Ran:
    """``python -m numawise`` as a process of its own: where exec, other processes or the exit are the point."""
    done = subprocess.run(
        [sys.executable, "-m", "numawise", *map(str, arguments)],
        input=stdin.encode() if isinstance(stdin, str) else stdin,
        capture_output=True,
        check=False,
        cwd=cwd,
        env={**os.environ, **environment},
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
