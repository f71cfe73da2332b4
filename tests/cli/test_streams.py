"""Standard output and standard error that are full, closed or left by their reader."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import needs
from tests.cli.run import ROOT

LIST = "machine list"
SENTENCE = "numawise: cannot write to standard output: "


def shell(command: str, redirection: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command line of ours with its streams redirected, as a process of its own."""
    script = f"{{ {sys.executable} -m numawise {command} {redirection}; }}; status=$?; exit $status"
    return subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "NUMAWISE_LEDGER": str(folder / "ledger")},
    )


# fmt: off
@pytest.mark.parametrize(("command", "redirection", "status", "said"), [
    pytest.param(LIST,                    ">/dev/full",            1, f"{SENTENCE}No space left",  id="full"),
    pytest.param(LIST,                    ">&-",                   1, f"{SENTENCE}it is closed",   id="closed"),
    pytest.param(LIST,                    ">&- <&-",               1, f"{SENTENCE}it is closed",   id="closed, and so is the input"),
    pytest.param(LIST,                    ">/dev/full 2>/dev/full", 1, "",                         id="all full"),
    pytest.param(LIST,                    ">&- 2>&-",              1, "",                          id="all closed"),
    pytest.param(LIST,                    "2>&-",                  0, "",                          id="nothing to say"),
    pytest.param("--help",                ">/dev/full",            1, f"{SENTENCE}No space left",  id="help"),
    pytest.param("machine list -o json",  ">/dev/full",            1, f"{SENTENCE}No space left",  id="json"),
    pytest.param("show dgx-h100",         ">/dev/full",            1, f"{SENTENCE}No space left",  id="a picture"),
    pytest.param("machine new nonsense",  ">&-",                   2, "is neither a file",             id="another error comes first"),
    pytest.param("machine new nonsense",  "2>&-",                  2, "",                          id="an error that nobody hears"),
    pytest.param("machine new nonsense",  "2>/dev/full",           2, "",                          id="an error that finds no room"),
    pytest.param("show dgx-h100",         "| true",                0, "",                          id="a reader that has gone"),
])
def test_output_that_cannot_be_written(
    command: str, redirection: str, status: int, said: str, tmp_path: Path
) -> None:
    done = shell(command, redirection, tmp_path)
    assert done.returncode == status, done
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == bool(said)


@needs.PROC
@needs.SYS
@pytest.mark.parametrize("redirection", [">&-", "2>&-", ">&- 2>&-", ">/dev/full", "2>/dev/full", ">/dev/full 2>&-"])
@pytest.mark.parametrize("command", ["run --cpus 1 --mode affinity", "bind -v --local-rank 0 --local-size 1"])
def test_a_job_runs_whatever_becomes_of_our_words(command: str, redirection: str, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    done = shell(f"{command} -- sh -c 'touch {ran}; exit 7'", redirection, tmp_path)
    assert done.returncode == 7, done
    assert ran.exists()


@needs.TERMINALS
def test_a_real_terminal_gets_our_styles_and_no_others(tmp_path: Path) -> None:
    machine = tmp_path / "machine.yaml"
    text = (ROOT / "examples/3gpu-server/machine.yaml").read_text()
    machine.write_text(text.replace("id: gpu0", 'id: "gpu0\\e[35m\\e]0;title\\a\\x9b2J"'))
    assert machine.read_text() != text
    master, terminal = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "numawise", "show", str(machine)],
        stdout=terminal,
        stderr=terminal,
        env={**os.environ, "TERM": "xterm", "NO_COLOR": ""},
        cwd=ROOT,
    ) as running:
        os.close(terminal)
        printed = b""
        while True:
            try:
                block = os.read(master, 1 << 16)
            except OSError:  # the other end is closed
                break
            if not block:
                break
            printed += block
    os.close(master)
    assert running.returncode == 0, printed
    shown = printed.decode()
    assert "\x1b[32m" in shown  # GPUs are green
    assert r"\x1b[35m" in shown
    for sequence in ("\x1b[35mGPU", "\x1b]", "\x9b", "\a"):
        assert sequence not in shown


@needs.PROC
@needs.SYS
def test_a_job_finds_a_closed_stream_closed(tmp_path: Path) -> None:
    done = shell("run --cpus 1 --mode affinity -- sh -c 'test ! -e /proc/self/fd/1'", ">&-", tmp_path)
    assert done.returncode == 0, done
