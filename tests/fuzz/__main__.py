"""``make fuzz``: damaged inputs for every reader, until one of them breaks a promise.

    python -m tests.fuzz [--runs N] [--seconds S] [--seed K] [--reader NAME ...] [--jobs J] [--own]
    python -m tests.fuzz --repeat FILE...

Runs are made in worker processes, a block of one reader at a time; see ``sandbox`` for what is watched.  Each
finding is reduced, written to ``--out`` as a small file and printed with the command that repeats it.  Once the
defect is mended, the file moves to ``tests/fuzz/regressions``, where the tests repeat it.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.fuzz.case import load, save
from tests.fuzz.drivers import DRIVERS
from tests.fuzz.readers import READERS, Reader, case_of
from tests.fuzz.reduce import reduced
from tests.fuzz.sandbox import Sandbox

BLOCK = 2000
MOST_WAITS = 3
"""Of a block; each costs its time."""
HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FOUND = ROOT / "fuzz-findings"


def main() -> int:
    """Read the options and do what they ask."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description="Damaged inputs for every reader."
    )
    parser.add_argument("--runs", type=int, default=20_000, help="in all, divided among the readers")
    parser.add_argument("--seconds", type=float, default=0, help="begin nothing new after so many")
    parser.add_argument("--seed", type=int, default=1, help="other damage")
    parser.add_argument("--reader", action="append", choices=sorted(READERS), help="only these")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--own", action="store_true", help="begin with the tests' own data alone")
    parser.add_argument("--out", type=Path, default=FOUND, help="where findings are written")
    parser.add_argument("--repeat", nargs="+", type=Path, metavar="FILE", help="run findings again")
    parser.add_argument(
        "--block", nargs=3, action="append", metavar=("READER", "FIRST", "COUNT"), help=argparse.SUPPRESS
    )
    options = parser.parse_args()
    options.out = options.out.resolve()
    if not options.repeat:
        options.out.mkdir(parents=True, exist_ok=True)
    if options.block:
        return _in_turn(options)
    if options.repeat:
        return _repeat(options.repeat)
    return _all(options)


def _scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder in memory, where there is such a thing."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    return tempfile.TemporaryDirectory(prefix="numawise-fuzz-", dir=memory, ignore_cleanup_errors=True)


def _say(text: object) -> None:
    print(text, flush=True)  # noqa: T201 - a program


# --- in a worker ----------------------------------------------------------------------------


def _in_turn(options: argparse.Namespace) -> int:
    """Runs of one reader after another, in this process; a line for each finding, and one at the end of each block."""
    blocks = [(READERS[name], int(first), int(count)) for name, first, count in options.block]
    for reader, first, _ in blocks:  # good inputs are made before anything is watched
        case_of(reader, first, options.seed, shared=not options.own)
    with _scratch() as folder:
        sandbox = Sandbox(Path(folder), DRIVERS)
        for reader, first, count in blocks:
            _block(options, sandbox, reader, range(first, first + count))
        os.chdir("/")
    return 0


def _block(options: argparse.Namespace, sandbox: Sandbox, reader: Reader, numbers: range) -> None:
    seen, waited = set(), 0
    for number in numbers:
        _say(number)  # so that a worker that dies is known by its last run
        case = case_of(reader, number, options.seed, shared=not options.own)
        finding = sandbox.run(case, acts=reader.acts)
        if finding is None:
            continue
        waited += finding.what.startswith("Waits")
        if waited > MOST_WAITS:
            break
        if finding.what in seen:
            continue
        seen.add(finding.what)
        if not _is_known(options.out, finding.what):
            case = reduced(case, sandbox, finding, acts=reader.acts)
            save(case, reader.name, finding.what, options.out / f"{_name(reader.name, finding.what)}.json")
        _say(json.dumps([finding.what, finding.detail, number]))
    _say("done")


def _name(reader: str, what: str) -> str:
    plain = "".join(letter if letter.isalnum() else "-" for letter in what)
    return f"{reader}-{plain}"[:120].strip("-")


def _is_known(folder: Path, what: str) -> bool:
    return any(json.loads(path.read_text())["found"] == what for path in folder.glob("*.json"))


def _repeat(paths: Sequence[Path]) -> int:
    """Cases of files once more; 1 when one of them still breaks something."""
    failed = 0
    with _scratch() as folder:
        cases = [(path, *load(path.resolve())) for path in paths]
        sandbox = Sandbox(Path(folder), DRIVERS)
        for path, name, case in cases:
            finding = sandbox.run(case, acts=READERS[name].acts)
            failed += finding is not None
            _say(f"{path}: {f'{finding.what}: {finding.detail}' if finding else 'well'}")
        os.chdir("/")
    return 1 if failed else 0


# --- over all -------------------------------------------------------------------------------


@dataclass
class Total:
    """What came of all runs."""

    runs: Counter[str] = field(default_factory=Counter)
    findings: dict[tuple[str, str], str] = field(default_factory=dict)
    seconds: float = 0.0


def _blocks(options: argparse.Namespace) -> Iterator[tuple[str, int, int]]:
    """Blocks of runs, the readers by turns in a shuffled order."""
    names = options.reader or sorted(READERS)
    whole = sum(READERS[name].share for name in names)
    blocks = []
    for name in names:
        runs = round(options.runs * READERS[name].share / whole)
        blocks += [(name, first, min(BLOCK, runs - first)) for first in range(0, runs, BLOCK)]
    Random(options.seed).shuffle(blocks)
    yield from blocks


def _all(options: argparse.Namespace) -> int:
    begin = time.monotonic()
    total = Total()
    waiting = _blocks(options)
    turn = threading.Lock()

    def next_block() -> tuple[str, int, int] | None:
        late = options.seconds and time.monotonic() - begin > options.seconds
        with turn:
            return None if late else next(waiting, None)

    def work() -> None:
        while (block := next_block()) is not None:
            while block is not None:
                block = Worker(options, *block).end(total, turn)

    threads = [threading.Thread(target=work) for _ in range(options.jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _report(total, time.monotonic() - begin, options.out)
    return 1 if total.findings else 0


class Worker:
    """A process with one block of runs."""

    def __init__(self, options: argparse.Namespace, reader: str, first: int, count: int) -> None:
        self.options, self.reader, self.first, self.count = options, reader, first, count
        own = ["--own"] if options.own else []
        words = ["--seed", str(options.seed), "--out", str(options.out), *own]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz", "--block", reader, str(first), str(count), *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def end(self, total: Total, turn: threading.Lock) -> tuple[str, int, int] | None:
        """Wait for it; what is left to run when it died."""
        out, err = self.process.communicate()
        with turn:
            return self._count(total, out, err)

    def _count(self, total: Total, out: str, err: str) -> tuple[str, int, int] | None:
        last, whole = self.first - 1, False
        for line in out.splitlines():
            if line.startswith("["):
                what, detail, number = json.loads(line)
                self._found(total, what, f"{detail} (run {number})")
            elif line == "done":
                whole = True
            elif line.isdigit():
                last = int(line)
                total.runs[self.reader] += 1
        if whole:
            return None
        if last < self.first:
            self._found(total, "the worker did not start", err[-1000:])
            return None
        what = f"the process ended with {self.process.returncode}"
        case = case_of(READERS[self.reader], last, self.options.seed, shared=not self.options.own)
        save(case, self.reader, what, self.options.out / f"{_name(self.reader, what)}-{last}.json")
        self._found(total, what, f"run {last}: {err[-300:]}")
        left = self.first + self.count - last - 1
        return (self.reader, last + 1, left) if left else None

    def _found(self, total: Total, what: str, detail: str) -> None:
        if (self.reader, what) in total.findings:
            return
        total.findings[self.reader, what] = detail
        place = self.options.out / f"{_name(self.reader, what)}.json"
        _say(f"{self.reader}: {what}\n    {detail}\n    python -m tests.fuzz --repeat {place}")


def _report(total: Total, seconds: float, out: Path) -> None:
    width = max(map(len, total.runs), default=0)
    for name, runs in sorted(total.runs.items()):
        findings = sum(reader == name for reader, _ in total.findings)
        _say(f"{name:{width}}  {runs:8,d} runs  {findings or 'no'} findings")
    kinds = len({what for _, what in total.findings})
    _say(
        f"{sum(total.runs.values()):,d} runs in {seconds:.0f} s: {kinds or 'no'} findings"
        + (f", in {out}" if kinds else "")
    )


if __name__ == "__main__":
    sys.exit(main())
