"""Whether a kubelet works on a directory right now.

Rules kept here:

1. A kubelet listens on sockets below its directory.  Somebody who takes a connection there is proof enough,
   whatever the program is called; a socket that nobody listens on is left over.
2. A process that is called like a kubelet, or like a program with one inside, counts when its ``--root-dir``
   is the directory.
3. What may not be looked at is no proof of anything.
"""

import os
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

from numawise.host.processes import DEAD, processes

ROOT = Path("/")
DEFAULT_DIRECTORY = Path("/var/lib/kubelet")
SOCKETS = ("device-plugins/kubelet.sock", "pod-resources/kubelet.sock")
PROGRAMS = ("kubelet", "kubelite", "hyperkube", "k3s-server", "k3s-agent", "k3s", "rke2", "microshift", "k0s")
"""Names of processes, as the kernel cuts them to fifteen characters."""
FLAG = "--root-dir"
PATIENCE = 0.5
"""Seconds to wait for a connection; a listening socket takes it at once."""


def kubelet_on(directory: Path, root: Path = ROOT) -> str:
    """What shows that a kubelet works on the directory, in words; '' when nothing does."""
    return next(_evidence(directory, root), "")


def _evidence(directory: Path, root: Path) -> Iterator[str]:
    for name in SOCKETS:
        path = directory / name
        if _listens(path):
            yield f"somebody listens on {path}"
    wanted = _real(directory)
    for process in processes(root):
        if process.name in PROGRAMS and process.state not in DEAD:
            words = _command(process.pid, root)
            if _real(root_directory(words)) == wanted:
                yield f"{process.name} runs on it (process {process.pid})"


def root_directory(words: Sequence[str]) -> Path:
    """The directory that a kubelet with this command line works on."""
    found = DEFAULT_DIRECTORY
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name not in (FLAG, FLAG[1:]):
            continue
        if equals:
            found = Path(value)
        elif at + 1 < len(words):
            found = Path(words[at + 1])
    return found


def _listens(path: Path) -> bool:
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as attempt:
            attempt.settimeout(PATIENCE)
            attempt.connect(os.fspath(path))
    except (TimeoutError, BlockingIOError):
        return True  # its queue is full: there is a listener
    except (OSError, ValueError):
        return False
    return True


def _command(pid: int, root: Path) -> list[str]:
    try:
        raw = (root / f"proc/{pid}/cmdline").read_bytes()
    except OSError:
        return []
    return [part.decode(errors="replace") for part in raw.split(b"\0")]


def _real(path: Path) -> str:
    return os.path.realpath(path)
