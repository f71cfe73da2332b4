"""One run, watched: what may come of it, and what is a finding.

Rules kept here:

1. A command ends with status 0 to 5, prints nothing that steers a terminal, what it prints as JSON is JSON, and a
   function raises nothing but what it promises.  Anything else is a finding, and so are more than 5 s of CPU time, 20 s of waiting, and more
   than 1 GiB of memory.
2. Nothing is written outside the folder of the run, no process is started or killed, nobody is talked to, and
   nobody sleeps.  Python's audit events tell; what would do it is stopped.  For commands that exist to do it
   (``Reader.acts``) the run ends there, for all others it is a finding.
3. A finding is known by the exception and the function of ours that it left last, so that the same defect found
   twice is one.
"""

import io
import json
import os
import re
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numawise
from numawise.errors import NumawiseError
from tests.fuzz.case import STDIN, Case, Folder

CPU_SECONDS, WAITING_SECONDS, STUCK_SECONDS = 5.0, 20.0, 30
WORKING_SECONDS = 0.05
"""CPU time within ``WAITING_SECONDS`` of a run that goes on, however busy the machine is."""
MEMORY = 1 << 30
STATUSES = frozenset(range(6))
JOB_STATUSES = STATUSES | {125, 126, 127}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = frozenset({
    "os.chflags", "os.chmod", "os.chown", "os.link", "os.mkdir", "os.remove", "os.removexattr", "os.rename", "os.rmdir",
    "os.setxattr", "os.symlink", "os.truncate", "os.utime", "sqlite3.connect",
})  # fmt: skip
CHANGED = {"os.rename": slice(2), "os.link": slice(2), "os.symlink": slice(1, 2)}
"""Which words of such an event are paths that change; the first where it is not said."""
FORBIDDEN = frozenset({
    "os.exec", "os.fork", "os.forkpty", "os.kill", "os.killpg", "os.posix_spawn", "os.spawn", "os.system", "pty.spawn",
    "signal.pthread_kill", "socket.bind", "socket.connect", "socket.getaddrinfo", "socket.gethostbyname",
    "socket.sendmsg", "socket.sendto", "subprocess.Popen", "syslog.openlog",
})  # fmt: skip
UNHEARD = ((os, "sched_setaffinity"), (signal, "pidfd_send_signal"))
"""Functions that act upon processes without an audit event."""
STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""What moves a cursor, changes colours or turns text around."""
GZIP = b"\x1f\x8b"
"""A bundle that is written to a pipe."""
HARMLESS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})
OURS = f"{Path(numawise.__file__).parent}{os.sep}"


class Stopped(BaseException):
    """Something that a run may not do, stopped before it was done."""


class TooLong(BaseException):
    """The run took too much CPU time."""


class Waits(BaseException):
    """The run waits for something."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a run did wrong."""

    what: str
    """Exception and function, or which promise was broken (rule 3)."""
    detail: str = ""


Driver = Callable[[list[str], Path], None]


class Sandbox:
    """A folder, and a process that watches itself; there is one in a process."""

    def __init__(self, root: Path, drivers: dict[str, Driver]) -> None:
        self.folder = Folder(root.resolve())
        self.root = str(root.resolve())
        self.drivers = drivers
        self.watching = False
        self.counted = 0.0
        self.stopped = ""
        sys.dont_write_bytecode = True
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGPROF, self._late)
        signal.signal(signal.SIGALRM, self._late)
        time.sleep = self._sleep
        self.open = os.open
        os.open = self._open  # type: ignore[assignment]
        for module, name in UNHEARD:
            setattr(module, name, partial(self._refuse, name))
        sys.addaudithook(self._audit)
        os.chdir(self.folder.work)
        for name in [
            name for name in os.environ if name.startswith(("NUMAWISE_", "KUBE", "DOCKER_", "XDG_"))
        ]:
            del os.environ[name]
        home = self.folder.work / "home"
        os.environ |= {
            "HOME": str(home),
            "NUMAWISE_LEDGER": str(self.folder.work / "ledger"),
            "NUMAWISE_DEBUG": "1",
            "COLUMNS": "100",
            "LC_ALL": "C.UTF-8",
        }
        self.environment = dict(os.environ)

    def run(self, case: Case, *, acts: bool = False) -> Finding | None:
        """Run a case; None when all is well."""
        self.folder.lay(case)
        os.chdir(self.folder.work)
        place = str(self.folder.case)
        wanted = self.environment | {
            name: word.replace("{case}", place) for name, word in case.variables().items()
        }
        if wanted != dict(os.environ):
            os.environ.clear()
            os.environ.update(wanted)
        self.stopped = ""
        line = case.line(self.folder.case, self.folder.work)
        begin = time.process_time()
        resource.setrlimit(resource.RLIMIT_CPU, (int(begin) + STUCK_SECONDS, resource.RLIM_INFINITY))
        try:
            with self._watch():
                finding = self._run(line, case.files.get(STDIN, b""), acts=acts)
        except (Stopped, TooLong, Waits, Exception) as problem:  # noqa: BLE001 - this is what is looked for
            finding = _of(problem)
        if self.stopped:
            return None if acts else Finding(f"forbidden: {self.stopped}")
        if finding is None and time.process_time() - begin > CPU_SECONDS:
            return Finding("TooLong")
        return finding

    def _run(self, line: list[str], stdin: bytes, *, acts: bool) -> Finding | None:
        status = 0
        with _streams(stdin) as (out, err):
            if line and line[0].startswith("@"):
                with suppress(NumawiseError):
                    self.drivers[line[0][1:]](line[1:], self.folder.case)
            else:
                from numawise.cli.main import main  # noqa: PLC0415 - what a driver needs is less

                status = main(line)
        printed, said = out.getvalue(), err.getvalue().decode(errors="replace")
        shown = "" if printed.startswith(GZIP) else printed.decode(errors="replace")
        if steering := STEERING.search(shown + said):
            return Finding("a terminal is steered", f"{steering[0]!r} in {printed[-300:]!r} {said[-300:]!r}")
        if "Traceback (most" in said or "internal error" in said or b"internal error" in printed:
            return Finding("internal error", said[-400:] + printed[-400:].decode(errors="replace"))
        if status not in (JOB_STATUSES if acts else STATUSES):
            return Finding(f"status {status}", said[-400:])
        if status > 1 and not said.strip():
            return Finding(f"status {status} without a word")
        if status < 2 and printed and _json_wanted(line) and not line[0].startswith("@"):
            return _json_problem(printed)
        return None

    @contextmanager
    def _watch(self) -> Iterator[None]:
        self.watching = True
        self.counted = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        signal.setitimer(signal.ITIMER_REAL, WAITING_SECONDS, WAITING_SECONDS)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
            self.watching = False

    def _late(self, number: int, _: object) -> None:
        if not self.watching:
            return
        if number == signal.SIGPROF:
            raise TooLong
        before, self.counted = self.counted, time.process_time()
        if self.counted - before < WORKING_SECONDS:  # else others have the CPUs, and it does not wait
            raise Waits

    def _sleep(self, seconds: float) -> None:
        self._stop(f"time.sleep {seconds}")

    def _refuse(self, name: str, *arguments: object) -> None:
        if arguments[:1] == (0,) and threading.current_thread() is not threading.main_thread():
            return  # a thread's own mask, which goes with it: numawise asks so for the cpuset in force
        self._stop(name)

    def _open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        """``os.open``, whose event does not say in which folder a name is."""
        if self.watching and dir_fd is not None and flags & WRITES:
            with suppress(FileNotFoundError):  # without /proc that is not known
                folder = Path(f"/proc/self/fd/{dir_fd}").readlink()
                self._judge("open", (folder / os.fsdecode(path),))
        return self.open(path, flags, mode, dir_fd=dir_fd)

    def _stop(self, what: str) -> None:
        self.stopped = what
        raise Stopped(what)

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.watching:
            return
        if event == "open":
            if arguments[2] & WRITES:
                self._judge(event, arguments[:1])
        elif event in CHANGES:
            self._judge(event, arguments[CHANGED.get(event, slice(1))])
        elif event in FORBIDDEN:
            if event == "os.kill" and arguments[1] == 0:
                return
            self._stop(event)

    def _judge(self, event: str, paths: tuple[Any, ...]) -> None:
        for path in paths:
            if isinstance(path, int) or path is None:
                continue
            name = os.fsdecode(path)
            place = os.path.realpath(name if event == "open" else os.path.dirname(name) or ".")  # noqa: PTH120
            if name not in HARMLESS and not f"{place}/".startswith(f"{self.root}/"):
                self._stop(f"{event} {name}")


@contextmanager
def _streams(stdin: bytes) -> Iterator[tuple[io.BytesIO, io.BytesIO]]:
    out, err = io.BytesIO(), io.BytesIO()
    before = sys.stdin, sys.stdout, sys.stderr
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(stdin)))  # type: ignore[arg-type]
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(stream, encoding="utf-8", errors=errors, write_through=True)
        for stream, errors in ((out, "strict"), (err, "backslashreplace"))
    )
    try:
        yield out, err
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.detach()
        sys.stdin, sys.stdout, sys.stderr = before


def _json_wanted(line: list[str]) -> bool:
    if any(
        word.startswith(("--out=", "--help", "-h", "--explain")) or word == "--out" for word in line
    ):  # text, or a file
        return False
    asked = [(name, value) for name, value in pairwise(line) if name in ("-o", "--output")]
    return bool(asked) and asked[-1][1] == "json"


def _json_problem(printed: bytes) -> Finding | None:
    def refuse(name: str) -> None:
        raise ValueError(f"{name} is not JSON")

    try:
        json.loads(printed, parse_constant=refuse)
    except (ValueError, RecursionError) as problem:
        return Finding("output that is not JSON", f"{problem}: {printed[:200]!r}")
    return None


def _of(problem: BaseException) -> Finding:
    frames = [frame for frame in traceback.extract_tb(problem.__traceback__) if OURS in frame.filename]
    where = "outside"
    if frames:
        where = f"{frames[-1].filename.rpartition(OURS)[2].removesuffix('.py')}.{frames[-1].name}"
    name = type(problem).__name__
    if isinstance(problem, TooLong | Waits | MemoryError | RecursionError):
        return Finding(f"{name} in {where.partition('.')[0]}", f"in {where}, {_path(frames)}")
    return Finding(f"{name} in {where}", f"{problem!s:.300} {_path(frames)}")


def _path(frames: list[traceback.FrameSummary]) -> str:
    return " < ".join(f"{Path(frame.filename).stem}:{frame.lineno}" for frame in frames[::-1][:6])
