"""The job's process: born first, bound while it waits, then let go; and how it is waited for.

Rules kept here:

1. The child waits on a pipe before exec.  What it needs (its memory policy, its environment) comes
   through that pipe; when the pipe closes without it, whoever made the child is gone, and it ends itself.
2. A second pipe, closed by exec, brings back why exec failed.
3. The job keeps terminal, standard streams, process group and inherited files.  Signals that the kernel sends
   to the whole group (Ctrl-C) reach it by themselves; those that somebody sends to us are passed on.
4. A script without ``#!`` is run by /bin/sh, as shells and ``execvp`` do.
5. A job that a signal ended is reported as such: we end ourselves by the same signal.
"""

import errno
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from numawise.errors import HostError
from numawise.host.confine import settle
from numawise.host.plan import Itself
from numawise.values import dataclass

NOT_STARTED, NOT_EXECUTABLE, NOT_FOUND = 125, 126, 127
PASSED_ON = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2),
    *(signal.SIGALRM, signal.SIGCONT, signal.SIGWINCH),
)
FROM_KERNEL = 0x80
"""``si_code`` of a signal that the kernel sent, as the terminal does."""
SHELL, BEGINNING = "/bin/sh", 256
PYTHON_IGNORES = (signal.SIGPIPE, signal.SIGXFSZ)


class CannotStart(HostError):
    """The command cannot be started; the exit status says why, as a shell's does."""

    def __init__(self, message: str, exit_code: int, advice: str = "") -> None:
        super().__init__(message, advice)
        self.exit_code = exit_code


def find_command(name: str, path: str | None = None) -> str:
    """The file that a command means; raise ``CannotStart`` when there is none, or it cannot be executed."""
    import shutil  # noqa: PLC0415 - costs time that listing holds can do without

    found = shutil.which(name, path=path)
    if found:
        return found
    if os.sep in name:
        if os.path.isdir(name):  # noqa: PTH112 - a command is text
            raise CannotStart(f"{name}: is a folder", NOT_EXECUTABLE)
        if os.path.exists(name):  # noqa: PTH110
            raise CannotStart(f"{name}: cannot be executed", NOT_EXECUTABLE, "check its mode with ls -l")
    elif shutil.which(name, mode=os.F_OK, path=path):
        raise CannotStart(f"{name}: cannot be executed", NOT_EXECUTABLE, "check its mode with ls -l")
    raise CannotStart(f"{name}: command not found", NOT_FOUND, "check its name and PATH")


@dataclass(slots=True)
class WaitingChild:
    """A child that waits to be let go."""

    pid: int
    go: int
    """Pipe to send it what it needs; -1 when used."""
    said: int
    """Pipe on which it reports why it could not exec."""

    def exec(
        self, itself: Itself, environment: Mapping[str, str], command: Sequence[str] | None = None
    ) -> None:
        """Let it become the job; raise ``CannotStart`` when exec fails.

        ``command``: what to run, where that was not known at its birth.
        """
        message = json.dumps(
            [[getattr(itself, name) for name in Itself.__match_args__], dict(environment), command]
        ).encode()
        _hold_signals_back()
        try:
            _write_all(self.go, message)
        except BrokenPipeError:
            _listen_again()
            self.wait_for_end()
            raise CannotStart("the job's process ended before it could start", NOT_STARTED) from None
        finally:
            self._close_go()
        complaint = _read_all(self.said)
        os.close(self.said)
        self.said = -1
        if complaint:
            _listen_again()
            self.wait_for_end()
            code, text = complaint.decode(errors="replace").split(" ", 1)
            raise CannotStart(text, int(code))

    def abort(self) -> None:
        """End it before it became anything."""
        self._close_go()
        self.wait_for_end()
        if self.said >= 0:
            os.close(self.said)
            self.said = -1

    def ended(self) -> bool:
        """Whether it is gone already."""
        try:
            return os.waitpid(self.pid, os.WNOHANG)[0] != 0
        except ChildProcessError:
            return True

    def wait_for_end(self) -> int:
        """Its wait status, once it has ended."""
        while True:
            try:
                return os.waitpid(self.pid, 0)[1]
            except InterruptedError:
                continue
            except ChildProcessError:
                return 0

    def _close_go(self) -> None:
        if self.go >= 0:
            os.close(self.go)
            self.go = -1


def fork_waiting(path: str, command: Sequence[str]) -> WaitingChild:
    """Fork the job's process; it waits for ``exec``."""
    orders, go = os.pipe()
    said, saying = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        pid = os.fork()
    except OSError as problem:
        raise CannotStart(f"no process can be started: {problem.strerror}", NOT_STARTED) from None
    if pid == 0:
        os.close(go)
        os.close(said)
        _become(path, command, orders, saying)
    os.close(orders)
    os.close(saying)
    return WaitingChild(pid, go, said)


def _become(path: str, command: Sequence[str], orders: int, saying: int) -> NoReturn:
    """The child's part: wait, settle, exec; never return."""
    try:
        message = _read_all(orders)
        if not message:
            os._exit(NOT_STARTED)
        itself, environment, decided = json.loads(message)
        settle(Itself(*itself))
        _hear_all()
        exec_program(path, decided or list(command), environment)
    except OSError as problem:
        code = NOT_FOUND if isinstance(problem, FileNotFoundError) else NOT_EXECUTABLE
        _write_all(saying, f"{code} {path}: {problem.strerror}".encode())
    except BaseException as problem:  # noqa: BLE001 - nothing may escape into the parent's code
        _write_all(saying, f"{NOT_STARTED} {problem}".encode())
    finally:
        os._exit(NOT_STARTED)


def _hear_all() -> None:
    """Give the signals that Python ignores their meaning back: a program inherits what is ignored."""
    for number in PYTHON_IGNORES:
        signal.signal(number, signal.SIG_DFL)


def take_over(path: str, command: Sequence[str], itself: Itself, environment: Mapping[str, str]) -> NoReturn:
    """Become a program ourselves, with nothing of us left behind; raise ``CannotStart`` when that fails."""
    settle(itself)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTSTP})  # held back while the ledger is locked
    sys.stdout.flush()
    sys.stderr.flush()
    _hear_all()
    try:
        exec_program(path, command, environment)
    except OSError as problem:
        code = NOT_FOUND if isinstance(problem, FileNotFoundError) else NOT_EXECUTABLE
        raise CannotStart(f"{path}: {problem.strerror}", code) from None


def exec_program(path: str, argv: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Become a program; a text that the kernel does not know how to execute is the shell's (rule 4)."""
    try:
        os.execve(path, list(argv), dict(environment))  # noqa: S606 - this is the whole purpose
    except OSError as problem:
        if problem.errno != errno.ENOEXEC or not _is_text(path):
            raise
    os.execve(SHELL, [SHELL, path, *argv[1:]], dict(environment))  # noqa: S606


def _is_text(path: str) -> bool:
    """Whether a file begins as a text does; a program for another processor has zero bytes there."""
    try:
        with open(path, "rb") as stream:  # noqa: PTH123 - a command is text
            return b"\0" not in stream.read(BEGINNING)
    except OSError:
        return False


def _hold_signals_back() -> None:
    """Keep signals that are for the job until ``wait_for`` passes them on."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, *PASSED_ON})


def _listen_again() -> None:
    """Take signals for ourselves again; those that came for a job that has ended are forgotten."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in PASSED_ON}
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD, *PASSED_ON})
    for number, meaning in before.items():
        signal.signal(number, meaning)


def wait_for(
    child: WaitingChild, meanwhile: Callable[[], float | None] | None = None, every: float = 1.0
) -> int:
    """Wait for the job, passing signals on; its wait status.

    ``meanwhile`` is called now and then, and may say after how many seconds again.
    Signals stay held back until ``exit_as``, so that what the job had can be given back in peace.
    """
    watched = {signal.SIGCHLD, *PASSED_ON}
    _hold_signals_back()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    due = time.monotonic() + every
    while True:
        ended, status = os.waitpid(child.pid, os.WNOHANG)
        if ended:
            return status
        if meanwhile is None:
            seen: signal.struct_siginfo | None = signal.sigwaitinfo(watched)
        else:
            seen = signal.sigtimedwait(watched, max(due - time.monotonic(), 0))
            if time.monotonic() >= due:
                due = time.monotonic() + (meanwhile() or every)
        if seen is not None and seen.si_signo != signal.SIGCHLD and seen.si_code != FROM_KERNEL:
            try:
                os.kill(child.pid, seen.si_signo)
            except ProcessLookupError:
                continue


def exit_as(status: int) -> int:
    """End as the job ended: by its signal, or with the exit code that is given back."""
    _listen_again()
    if not os.WIFSIGNALED(status):
        return os.waitstatus_to_exitcode(status)
    number = os.WTERMSIG(status)
    sys.stdout.flush()
    sys.stderr.flush()
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    return 128 + number


def _write_all(handle: int, data: bytes) -> None:
    at = 0
    while at < len(data):
        at += os.write(handle, data[at:])


def _read_all(handle: int) -> bytes:
    parts = []
    while part := os.read(handle, 1 << 16):
        parts.append(part)
    return b"".join(parts)
