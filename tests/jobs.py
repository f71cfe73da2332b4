"""Real processes to bind: born waiting, bound, then let go, as ``numawise run`` does it."""

import codecs
import ctypes
import os
import pickle
import re
import signal
import struct
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from numawise.host import confine, processes
from numawise.host.plan import Itself, Plan

WORKER = Path(__file__).with_name("worker.py").read_text()
"""The program itself: another user may not be able to read the file."""
NODE = re.compile(r" N([0-9]+)=([0-9]+)")
INTERPRETERS = (sys.executable, "/usr/bin/python3")
ctypes.CDLL(None)  # loaded here, because another user may not be able to read our libraries later


class Job:
    """A child that waits; ``bind`` and ``start`` make a job of it."""

    def __init__(self) -> None:
        wait, self._go = os.pipe()
        asked, self._ask = os.pipe()
        self._answer, said = os.pipe()
        self.group = self.mode = ""
        self.pid = fork()
        if self.pid:
            for end in (wait, asked, said):
                os.close(end)
            self._answers = os.fdopen(self._answer)
            return
        try:
            for end in (self._go, self._ask, self._answer):
                os.close(end)
            self._become(wait, asked, said)
        finally:
            os._exit(125)

    def _become(self, wait: int, asked: int, said: int) -> None:
        message = b""
        while part := os.read(wait, 4096):
            message += part
        if not message:
            os._exit(124)
        itself, argv = pickle.loads(message)
        confine.settle(itself)
        os.dup2(asked, 0)
        os.dup2(said, 1)
        os.execv(argv[0], argv)

    def bind(self, mode: str, name: str, **limits: Any) -> Plan:
        plan = confine.plan(mode, name, self.pid, **limits)
        confine.carry_out(plan)
        self.mode, self.group = mode, plan.group
        return plan

    def start(self, itself: Itself, mebibytes: int = 4, threads: int = 2, children: int = 1) -> Self:
        """Become the worker, and be ready."""
        python = next(path for path in INTERPRETERS if os.access(path, os.X_OK, effective_ids=True))
        argv = [python, "-I", "-S", "-c", WORKER, str(mebibytes), str(threads), str(children)]
        os.write(self._go, pickle.dumps((itself, argv)))
        os.close(self._go)
        self._go = -1
        assert self._answers.readline() == "ready\n", "the worker did not start"
        return self

    def tell(self, words: str) -> str:
        """Let the worker do something; its answer, '' when it died of it."""
        os.write(self._ask, f"{words}\n".encode())
        return self._answers.readline().strip()

    def family(self) -> tuple[int, ...]:
        return processes.family(self.pid)

    def masks(self) -> set[int]:
        """The CPUs that each thread of each process may use."""
        found = set()
        for pid in self.family():
            for tid in processes.threads(pid):
                allowed = processes.allowed_of(pid, tid)
                if allowed:
                    found.add(allowed[0])
        return found

    def seen_on(self) -> int:
        """The CPUs that the threads ran on last."""
        cpus = 0
        for pid in self.family():
            for tid in processes.threads(pid):
                try:
                    stat = Path(f"/proc/{pid}/task/{tid}/stat").read_text(encoding="ascii", errors="replace")
                except OSError:
                    continue
                cpus |= 1 << int(stat.rpartition(")")[2].split()[36])
        return cpus

    def pages(self) -> dict[int, int]:
        """NUMA node → pages of its own, over all processes; the page cache left out."""
        found: dict[int, int] = {}
        for pid in self.family():
            for line in (
                Path(f"/proc/{pid}/numa_maps").read_text(encoding="ascii", errors="replace").splitlines()
            ):
                if " file=" not in line and " anon=" in line:
                    for node, count in NODE.findall(line):
                        found[int(node)] = found.get(int(node), 0) + int(count)
        return found

    def share_on(self, mems: int) -> float:
        pages = self.pages()
        return sum(count for node, count in pages.items() if mems >> node & 1) / max(sum(pages.values()), 1)

    def end(self) -> int:
        """Kill it and its children, wait for it, and remove its group; its wait status."""
        for pid in reversed(self.family()):
            if pid != self.pid:
                _kill(pid)
        return self.reap(kill=True)

    def reap(self, *, kill: bool = False) -> int:
        if kill:
            _kill(self.pid)
        _, status = os.waitpid(self.pid, 0)
        for end in (self._go, self._ask):
            if end >= 0:
                os.close(end)
        self._answers.close()
        if self.group:
            confine.kill(self.mode, self.group)
            confine.tear_down(self.mode, self.group)
        return status

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if processes.read_process(self.pid):
            self.end()


def fork() -> int:
    """Fork, though a test runner may have threads: the child minds only its own business."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def in_child(function: Callable[[], Any], before: Callable[[], None] = lambda: None) -> Any:
    """Call a function in a child, after another one has prepared it; its answer, or its exception."""
    read, write = os.pipe()
    pid = fork()
    if not pid:
        os.close(read)
        try:
            try:
                before()
                answer = (True, function())
            except BaseException as error:  # noqa: BLE001 - it is raised again outside
                error.add_note(traceback.format_exc())
                answer = (False, error)
            with os.fdopen(write, "wb") as pipe:
                pipe.write(pickle.dumps(answer))
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        data = pipe.read()
    os.waitpid(pid, 0)
    worked, found = pickle.loads(data)
    if not worked:
        raise found
    return found


codecs.lookup("ascii")  # loaded while we may read the interpreter's files: another user may not


def become(uid: int) -> None:
    """Be another user for good."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def as_user(uid: int, function: Callable[[], Any]) -> Any:
    """Call a function as another user."""
    return in_child(function, lambda: become(uid))


def without_calls(*numbers: int) -> Callable[[], None]:
    """Let the kernel refuse system calls by number (EPERM), as a container's seccomp profile does."""

    def filtered() -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        load, equal, answer = 0x20, 0x15, 0x06
        program = [(load, 0, 0, 0)]
        for at, number in enumerate(numbers):
            program.append((equal, len(numbers) - at, 0, number))
        program += [(answer, 0, 0, 0x7FFF0000), (answer, 0, 0, 0x00050000 | 1)]
        code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))
        header = struct.pack("HxxxxxxP", len(program), ctypes.addressof(code))
        assert libc.prctl(38, 1, 0, 0, 0) == 0  # no new privileges
        assert libc.prctl(22, 2, header, 0, 0) == 0, os.strerror(ctypes.get_errno())

    return filtered
