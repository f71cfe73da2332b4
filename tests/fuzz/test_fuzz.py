"""A minute of the fuzz harness: the same runs each time, and every finding of the past."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import needs
from tests.fuzz.case import Case, load, save
from tests.fuzz.readers import READERS, case_of

ROOT = Path(__file__).parents[2]
REGRESSIONS = sorted((Path(__file__).parent / "regressions").glob("*.json"))
RUNS = 60
"""Of a reader with share 1."""


def fuzz(*words: object) -> subprocess.CompletedProcess[str]:
    """The harness as a program: it limits memory, and stops what it may not do, in its own process."""
    command = [sys.executable, "-m", "tests.fuzz", *map(str, words)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


EACH = [pytest.param(name, marks=needs.PROC if name == "ledger" else ()) for name in READERS]
"""A ledger is of a boot, which /proc names."""
PROGRAMS = 8
"""For all readers but that one: to begin takes a program as long as the runs of a reader."""
OTHERS = [name for name in READERS if name != "ledger"]
TOGETHER = [" ".join(OTHERS[at::PROGRAMS]) for at in range(PROGRAMS)]


@pytest.mark.parametrize("names", [*TOGETHER, pytest.param("ledger", marks=needs.PROC)])
def test_no_input_breaks_a_reader(names: str, tmp_path: Path) -> None:
    counts = {name: round(RUNS * READERS[name].share) for name in names.split()}
    blocks = [word for name, count in counts.items() for word in ("--block", name, 0, count)]
    ran = fuzz(*blocks, "--own", "--seed", 7, "--out", tmp_path)
    lines = ran.stdout.splitlines()
    findings = [line for line in lines if line.startswith("[")]
    assert not findings, [path.read_text() for path in tmp_path.iterdir()]
    expected = [line for count in counts.values() for line in (*map(str, range(count)), "done")]
    assert lines == expected, (lines[-1:], ran.stderr[-2000:])


@pytest.mark.skipif(not REGRESSIONS, reason="nothing was found yet")
def test_no_finding_comes_back() -> None:
    ran = fuzz("--repeat", *REGRESSIONS)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.count(": well\n") == len(REGRESSIONS)


@pytest.mark.parametrize("name", EACH)
def test_a_run_is_made_of_its_number(name: str) -> None:
    reader = READERS[name]
    assert case_of(reader, 5, 7, shared=False) == case_of(reader, 5, 7, shared=False)
    assert any(
        case_of(reader, 5, 7, shared=False) != case_of(reader, 5, seed, shared=False) for seed in range(8, 12)
    )


# --- what the harness would notice ------------------------------------------------------------

BREAKS = {
    "an exception": ("raise KeyError('x')", "KeyError in outside"),
    "a loop": ("while True: pass", "TooLong in outside"),
    "memory": ("x = bytearray(2 << 30)", "MemoryError in outside"),
    "a file elsewhere": ("open('/tmp/../numawise-fuzz-was-here', 'w')", "forbidden: open /tmp/../numawise-fuzz-was-here"),
    "a file in a folder elsewhere": ("import os; os.open('fuzz-was-here', os.O_WRONLY | os.O_CREAT, dir_fd=os.open('/var', os.O_RDONLY))", "forbidden: open /var/fuzz-was-here"),
    "a link elsewhere": ("import os; os.symlink('x', '/var/fuzz-was-here')", "forbidden: os.symlink /var/fuzz-was-here"),
    "a process": ("import os; os.fork()", "forbidden: os.fork"),
    "a connection": ("import socket; socket.create_connection(('127.0.0.1', 9))", "forbidden: socket.getaddrinfo"),
    "a nap": ("import time; time.sleep(1)", "forbidden: time.sleep 1"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("code", "finding"),
    [
        pytest.param(*words, id=name, marks=needs.PROC if "dir_fd" in words[0] else ())
        for name, words in BREAKS.items()
    ],
)
def test_what_a_run_may_not_do(code: str, finding: str, tmp_path: Path) -> None:
    script = f"""
import sys
from pathlib import Path
from tests.fuzz.case import Case
from tests.fuzz.sandbox import Sandbox

def bad(words, case):
    {code}

sandbox = Sandbox(Path(sys.argv[1]), {{"bad": bad, "good": lambda words, case: None}})
assert sandbox.run(Case(("@good",))) is None
sys.stdout.write(sandbox.run(Case(("@bad",))).what)
"""
    ran = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.stdout == finding, ran.stderr


def test_a_case_is_kept_as_it_is(tmp_path: Path) -> None:
    case = Case(("show", "{case}/a"), {"a": b"\xff\0\n", "b": b"one\r\ntwo\n" * 30, "c": b""})
    save(case, "words", "x", tmp_path / "x.json")
    assert load(tmp_path / "x.json") == ("words", case)
    assert json.loads((tmp_path / "x.json").read_text())["found"] == "x"
