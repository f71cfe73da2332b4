"""``numawise`` as a process of its own, without the time that an interpreter takes to begin and to import.

A program that has imported everything forks a process for each command.  What such a process does, and how it ends, is
what ``python -m numawise`` does: it has its own number, descriptors, environment, folder, mask and signals.  What is
different: it has the command line of the program that forked it, the interpreter has its settings already, and its
modules are not taken apart in the end.  Where these are the point a test starts a process in the usual way
(``tests.cli.run.process``).

What is sent is a line of JSON with four descriptors: input, output, errors, and where the status is written in the end.
"""

import atexit
import contextlib
import gc
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import IO, Any, Self

from tests.host.as_user import import_all
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[1]
SETTINGS = ("PYTHON", "LC_", "LANG")
"""An interpreter looks at variables with these names while it begins."""
STATUS = struct.Struct("i")
LARGEST = 1 << 20
ASKING = threading.Lock()


# --- in the test ------------------------------------------------------------------------------------


class Program:
    """A command that runs; used as a ``subprocess.Popen`` is."""

    def __init__(
        self,
        *words: str,
        env: Mapping[str, str] | None = None,
        stdin: Any = None,
        stdout: Any = None,
        stderr: Any = None,
        text: bool = False,
        cwd: str | Path = "",
    ) -> None:
        self.args, self.text = words, text
        self.returncode: int | None = None
        environment = dict(os.environ if env is None else env)
        for name in {**environment, **os.environ}:
            given = environment.get(name)
            assert not name.startswith(SETTINGS) or given == os.environ.get(name), f"not warm: {name}={given}"
        self._opened: list[int] = []
        self.stdin, read = self._stream(stdin, 0)
        self.stdout, out = self._stream(stdout, 1)
        self.stderr, errors = (None, out) if stderr == subprocess.STDOUT else self._stream(stderr, 2)
        self._status, status = os.pipe()
        self._said: tuple[Any, Any] | None = None
        mask = sorted(os.sched_getaffinity(0))
        message = json.dumps(
            {"words": words, "environment": environment, "folder": str(cwd or Path.cwd()), "mask": mask}
        )
        with ASKING:
            control = _server()
            socket.send_fds(control, [message.encode("ascii")], [read, out, errors, status])
            self.pid = STATUS.unpack(control.recv(STATUS.size))[0]
        for end in (*self._opened, status):
            os.close(end)

    def _stream(self, given: Any, number: int) -> tuple[IO[Any] | None, int]:
        """Our end of a stream, and the program's."""
        if given == subprocess.PIPE:
            read, write = os.pipe()
            ours, theirs = (write, read) if number == 0 else (read, write)
            mode = ("r" if number else "w") + ("" if self.text else "b")
            self._opened.append(theirs)
            return os.fdopen(ours, mode), theirs
        if given == subprocess.DEVNULL:
            self._opened.append(os.open(os.devnull, os.O_RDWR))
            return None, self._opened[-1]
        return None, number if given is None else given.fileno()

    def wait(self, timeout: float | None = PATIENCE) -> int:
        """Wait for its end; its status."""
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self.returncode = os.waitstatus_to_exitcode(STATUS.unpack(os.read(self._status, STATUS.size))[0])
            os.close(self._status)
        return self.returncode

    def poll(self) -> int | None:
        """Its status, once it has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def communicate(self, given: Any = None, timeout: float | None = PATIENCE) -> tuple[Any, Any]:
        """Give it its input and wait for its end; what it said."""
        if self._said is None:
            answers: dict[int, Any] = {}

            def hear(number: int, stream: IO[Any]) -> None:
                with stream:
                    answers[number] = stream.read()

            hearing = [
                threading.Thread(target=hear, args=(number, stream), daemon=True)
                for number, stream in ((1, self.stdout), (2, self.stderr))
                if stream is not None
            ]
            for thread in hearing:
                thread.start()
            if self.stdin is not None and not self.stdin.closed:
                with contextlib.suppress(BrokenPipeError), self.stdin:
                    self.stdin.write(given or ("" if self.text else b""))
            for thread in hearing:
                thread.join(timeout)
                if thread.is_alive():
                    raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self._said = answers.get(1), answers.get(2)
        self.wait(timeout)
        return self._said

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close()
        self.wait()


def run(
    *words: str,
    given: Any = None,
    env: Mapping[str, str] | None = None,
    text: bool = True,
    cwd: str | Path = "",
) -> "subprocess.CompletedProcess[Any]":
    """Run a command to its end."""
    pipe = subprocess.PIPE
    source = subprocess.DEVNULL if given is None else pipe
    program = Program(*words, env=env, stdin=source, stdout=pipe, stderr=pipe, text=text, cwd=cwd)
    out, errors = program.communicate(given)
    return subprocess.CompletedProcess(words, program.wait(), out, errors)


@cache
def _server() -> socket.socket:
    """The way to a program that has imported everything; it ends with this process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    words = [sys.executable, "-m", "tests.warm", str(theirs.fileno())]
    server = subprocess.Popen(words, pass_fds=[theirs.fileno()], cwd=ROOT, stdin=subprocess.DEVNULL)
    theirs.close()

    def end() -> None:
        ours.close()
        server.wait(PATIENCE)

    atexit.register(end)
    return ours


# --- in the program that forks ----------------------------------------------------------------------


def serve(control: socket.socket) -> None:
    """Fork as long as somebody asks for it.  Returns in each process that was forked, which then is the command."""
    import_all()
    gc.collect()
    gc.freeze()  # none of it goes, so that nobody looks at it again
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who stops the tests by hand ends this with them
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(tell)
    running: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([control.fileno(), told], [], [])
        if told in ready:
            os.read(told, 4096)
            while running and (ended := os.waitpid(-1, os.WNOHANG))[0]:
                status = running.pop(ended[0])
                with contextlib.suppress(BrokenPipeError):
                    os.write(status, STATUS.pack(ended[1]))
                os.close(status)
        if control.fileno() in ready:
            message, descriptors, _, _ = socket.recv_fds(control, LARGEST, 4)
            if not message:
                os._exit(0)
            pid = os.fork()
            if not pid:
                signal.set_wakeup_fd(-1)
                for end in (control.detach(), told, tell, *running.values(), descriptors.pop()):
                    os.close(end)
                become(descriptors, **json.loads(message))
                return
            running[pid] = descriptors.pop()
            for end in descriptors:
                os.close(end)
            control.send(STATUS.pack(pid))


def become(
    descriptors: list[int], words: list[str], environment: dict[str, str], folder: str, mask: list[int]
) -> None:
    """Be a command, as far as the interpreter goes."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, end in enumerate(descriptors):
        os.dup2(end, number)
    for end in set(descriptors):
        os.close(end)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    os.sched_setaffinity(0, mask)
    sys.argv[1:] = words


def end(status: int) -> None:
    """End as an interpreter does, but for the modules: all that were imported would be taken apart."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    gc.collect()  # tasks and generators that nobody ended say so
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
    from numawise.cli.main import main

    end(main())
