"""``numawise`` as other users: a server that has imported everything forks a process for each command.

Interpreter and checkout may lie where others cannot reach them.  So nothing can be imported after the rights are
dropped, and the package with its data is copied to where everybody can read it; importing everything takes seconds,
so that is done once.  Requests and answers are lines of JSON:
``{"do": "start", ...}`` → process number, ``{"do": "poll", "pid": 7}`` → exit status or null, ``"wait"`` likewise.
"""

import ctypes
import gc
import importlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import pytest

import numawise

PR_SET_DUMPABLE, CLONE_NEWNS, MS_PRIVATE = 4, 0x20000, (1 << 14) | (1 << 18)
LIBC = ctypes.CDLL(None, use_errno=True)
IMPORT = re.compile(r"^[ \t]*(?:from ([\w.]+) import (\([^)]*\)|[^\n#]*)|import ([\w., ]+))", re.MULTILINE)
"""Quicker than parsing; a word too many is a module that is not there."""
NAME = re.compile(r"[\w.]+")


def mounted(kind: str, place: str, options: str) -> bool:
    """Mount a file system in a mount namespace of our own; False when that cannot be done."""
    words = [word.encode() for word in (kind, place, kind)]
    return not (
        LIBC.unshare(CLONE_NEWNS)
        or LIBC.mount(None, b"/", None, MS_PRIVATE, None)
        or LIBC.mount(*words, 0, options.encode())
    )


def import_all() -> None:
    names = {"encodings.idna", "unicodedata", "_strptime"}
    for file in Path(numawise.__path__[0]).rglob("*.py"):
        for module, members, modules in IMPORT.findall(file.read_text()):
            names |= {module, *(f"{module}.{name}" for name in NAME.findall(members))} if module else set()
            names |= set(NAME.findall(modules))
    for name in sorted(names - {"numawise.__main__"}):
        with suppress(ImportError, OSError):
            importlib.import_module(name)


def child(uid: int, words: list[str], environment: dict[str, str], files: list[str]) -> NoReturn:
    status = 99
    try:
        for number, file in enumerate(("/dev/null", *files)):
            os.dup2(os.open(file, os.O_RDWR), number)
        os.environ.clear()
        os.environ.update(environment)
        os.chdir("/")
        if uid:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            LIBC.prctl(PR_SET_DUMPABLE, 1)  # as after exec: /proc shows it as this user's
        from numawise.cli.main import main  # noqa: PLC0415 - after all of it

        status = main(words)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


def serve(mount: list[str]) -> int:
    import_all()
    gc.freeze()  # none of it goes, so that no command looks at it again
    if mount and not mounted(*mount):
        return 77
    ended: dict[int, int] = {}
    answers = os.fdopen(os.dup(1), "w")
    answers.write("ready\n")
    answers.flush()
    for line in sys.stdin:
        request = json.loads(line)
        answer: int | None
        if request["do"] == "start":
            answer = os.fork()
            if not answer:
                child(*(request[key] for key in ("uid", "words", "environment", "files")))
        else:
            pid = request["pid"]
            if pid not in ended:
                found, status = os.waitpid(pid, os.WNOHANG if request["do"] == "poll" else 0)
                if found:
                    ended[pid] = os.waitstatus_to_exitcode(status)
            answer = ended.get(pid)
        answers.write(f"{json.dumps(answer)}\n")
        answers.flush()
    return 0


class Server:
    """The server, and what can be asked of it; ``mount``: a file system that its processes see alone."""

    def __init__(self, *mount: str) -> None:
        root = Path(__file__).parents[2]
        self.folder = tempfile.TemporaryDirectory()
        Path(self.folder.name).chmod(0o755)
        shutil.copytree(numawise.__path__[0], Path(self.folder.name, "numawise"))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.host.as_user", *mount],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=root,
            env={**os.environ, "PYTHONPATH": f"{self.folder.name}:{root}", "PYTHONDONTWRITEBYTECODE": "1"},
        )
        assert self.process.stdout
        if self.process.stdout.readline() != "ready\n":
            self.close()
            pytest.skip(f"a file system of our own cannot be mounted here: {' '.join(mount)}")

    def ask(self, **request: Any) -> int | None:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{json.dumps(request)}\n")
        self.process.stdin.flush()
        answer: int | None = json.loads(self.process.stdout.readline())
        return answer

    def start(self, uid: int, words: list[str], environment: dict[str, str]) -> "Started":
        return Started(self, uid, words, environment)

    def close(self) -> None:
        self.process.communicate()
        self.folder.cleanup()


class Started:
    """A command of some user; used as a ``subprocess.Popen`` is."""

    def __init__(self, server: Server, uid: int, words: list[str], environment: dict[str, str]) -> None:
        self.server = server
        self.files = [tempfile.NamedTemporaryFile("r") for _ in range(2)]  # noqa: SIM115 - closed at its end
        names = [file.name for file in self.files]
        pid = server.ask(do="start", uid=uid, words=words, environment=environment, files=names)
        assert pid
        self.pid: int = pid
        self.stdout = self.stderr = ""

    def poll(self) -> int | None:
        return self.server.ask(do="poll", pid=self.pid)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def communicate(self) -> tuple[str, str]:
        self.returncode = self.server.ask(do="wait", pid=self.pid)
        if not self.files[0].closed:
            self.stdout, self.stderr = (file.read() for file in self.files)
            for file in self.files:
                file.close()
        return self.stdout, self.stderr


if __name__ == "__main__":
    sys.exit(serve(sys.argv[1:]))
