"""What reaches standard output and standard error: our own styles, and nothing else that steers a terminal.

Rules kept here:

1. Every text passes through a ``Printer``, which ``cli.main`` puts in the place of both streams: no command
   can forget it.  Control characters, marks of direction and halves of characters become visible escapes.
2. Our own sequences carry a number that each process draws for itself, and the printer takes it out again: a
   text from a file cannot contain it, so it cannot colour a line, move the cursor or name a window.
3. A standard output that is full or closed is one sentence and exit status 1; a reader that has gone is for
   the caller.  What cannot be said on standard error is left unsaid: a job still runs, a status is kept.
"""

import errno
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, cast

from numawise.errors import NumawiseError, visible

BOLD, DIM, RED, GREEN, YELLOW, MAGENTA, CYAN = "1", "2", "31", "32", "33", "35", "36"
START = "\x1b["
OWN = f"{START}{int.from_bytes(os.urandom(8))};"
"""What our own sequences begin with until they are printed (rule 2)."""
RESET = f"{OWN}0m"
CLEAR_LINE = f"{OWN}1G{OWN}2K"
CLEAR_SCREEN = f"{OWN}2J{OWN}1;1H"


def styled(text: str, style: str) -> str:
    """Text in a style, such as ``BOLD`` or ``1;31``; as it is without one."""
    return f"{start(style)}{text}{RESET}" if style and text else text


def start(style: str) -> str:
    """The beginning of a style, up to ``RESET``."""
    return f"{OWN}{style}m"


class Printer(io.TextIOBase):
    """A standard stream that text cannot steer (rule 1); ``stream`` is None where it was closed."""

    def __init__(self, stream: IO[str] | None, name: str, *, needed: bool = False) -> None:
        self.stream = stream
        self.name = name
        self.needed = needed
        self.broken = False

    def write(self, text: str) -> int:
        """Write with control characters made visible."""
        safe = START.join(map(visible, text.split(OWN)))
        if safe:
            self._try(lambda stream: _put(stream, safe))
        return len(text)

    def write_bytes(self, data: bytes) -> None:
        """Write what is not text."""
        self.flush()
        self._try(lambda stream: _put_bytes(stream, data))

    def flush(self) -> None:
        """Write what is still waiting."""
        if self.stream is not None and not self.stream.closed and not self.broken:
            self._try(lambda stream: stream.flush())

    def close(self) -> None:
        """Nothing, not even at the end of this object: the stream is not ours, and may have ended before."""

    def _try(self, act: Callable[[IO[str]], object]) -> None:
        if self.stream is None:
            self._failed(OSError(errno.EBADF, "it is closed"))
            return
        try:
            act(self.stream)
        except OSError as problem:
            self._failed(problem)

    def _failed(self, problem: OSError) -> None:
        """Nothing more can be written (rule 3)."""
        self.broken = True
        if not self.needed:
            return
        self.discard()
        if isinstance(problem, BrokenPipeError):
            raise problem
        reason = problem.strerror or str(problem)
        raise NumawiseError(f"cannot write to {self.name}: {reason}", "check where it goes") from None

    def discard(self) -> None:
        """Forget what is waiting, so that Python does not try it once more at the end."""
        with suppress(OSError, ValueError, AttributeError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self.fileno(), inheritable=False)
            os.close(null)

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """What characters become."""
        return getattr(self.stream, "encoding", None) or "utf-8"

    def isatty(self) -> bool:
        """Whether a person is watching."""
        return self.stream is not None and self.stream.isatty()

    def fileno(self) -> int:
        """The number of the stream's file."""
        if self.stream is None:
            raise OSError(errno.EBADF, "it is closed")
        return self.stream.fileno()

    def writable(self) -> bool:
        """It is there for that."""
        return True


def cleaned(stream: IO[str], name: str) -> IO[str]:
    """A stream into which text is written as if it were printed."""
    return cast("IO[str]", Printer(stream, name))


def _put(stream: IO[str], text: str) -> None:
    try:
        stream.write(text)
    except UnicodeEncodeError as problem:
        stream.write(text.encode(problem.encoding, "backslashreplace").decode(problem.encoding))


def _put_bytes(stream: IO[str], data: bytes) -> None:
    raw: IO[bytes] = stream.buffer  # type: ignore[attr-defined]
    raw.write(data)
    raw.flush()


@contextmanager
def printing() -> Iterator[Printer]:
    """Let everything that is printed inside pass through printers; gives that of standard output."""
    before = sys.stdout, sys.stderr
    if None in (sys.stdin, *before):
        _fill_gaps()
    out, err = Printer(before[0], "standard output", needed=True), Printer(before[1], "standard error")
    sys.stdout, sys.stderr = out, err
    try:
        yield out
    finally:
        err.flush()
        if err.broken:  # not before: a job has the same standard error
            err.discard()
        sys.stdout, sys.stderr = before


def _fill_gaps() -> None:
    """Take the numbers of closed standard streams, or a file that is opened next would get what is for them.

    Jobs do not inherit these: their streams are closed as ours were.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
