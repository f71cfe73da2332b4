"""The log of a program: text for a person at a terminal, a JSON object a line for everybody else."""

import json
import logging
import time
from pathlib import Path
from traceback import walk_tb
from typing import IO

from numawise.errors import LONGEST_MESSAGE, cut

INFO, WARNING, ERROR = "info", "warning", "error"
MOST_PLACES = 4


class ServiceLog:
    """Writes what happens; the same sentence again and again is written once, until ``forget``."""

    def __init__(self, stream: IO[str], *, structured: bool) -> None:
        self.stream, self.structured = stream, structured
        self._last: dict[str, str] = {}

    def say(self, level: str, message: str, **fields: object) -> None:
        """One line."""
        now = time.time()
        if self.structured:
            line = {"time": _stamp(now), "level": level, "message": cut(message, LONGEST_MESSAGE), **fields}
            self.stream.write(json.dumps(line, ensure_ascii=True, default=str) + "\n")
        else:
            about = " ".join(f"{name}={value}" for name, value in fields.items())
            head = f"{time.strftime('%H:%M:%S', time.localtime(now))} {level:<7} "
            text = f"{message} ({about})" if about else message
            self.stream.write(head + cut(text, LONGEST_MESSAGE).replace("\n", " ") + "\n")
        self.stream.flush()

    def once(self, about: str, level: str, message: str, **fields: object) -> None:
        """One line, unless it is what was said last about this."""
        if self._last.get(about) != message:
            self._last[about] = message
            self.say(level, message, **fields)

    def mistake(self, what: str, problem: BaseException) -> None:
        """One line on a mistake of ours in something, with the places that whoever mends it needs."""
        words = f"mistake in {what}: {type(problem).__name__}: {problem}"
        self.once(f"mistake in {what}", ERROR, words, at=where(problem))

    def forget(self, about: str) -> None:
        """What is said next about this is news again."""
        self._last.pop(about, None)


def where(problem: BaseException) -> str:
    """``sets.py:31 parse < pods.py:88 read``: where it went wrong, innermost first."""
    while problem.__cause__ is not None:
        problem = problem.__cause__
    frames = list(walk_tb(problem.__traceback__))[-MOST_PLACES:]
    places = [f"{Path(f.f_code.co_filename).name}:{line} {f.f_code.co_name}" for f, line in reversed(frames)]
    return " < ".join(places)


def _stamp(now: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"


class LibraryLog(logging.Handler):
    """What libraries log, as lines of ours."""

    def __init__(self, log: ServiceLog) -> None:
        super().__init__(logging.WARNING)
        self.log = log

    def emit(self, record: logging.LogRecord) -> None:
        """One line, without a stack."""
        message = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            problem = record.exc_info[1]
            message = f"{message}: {type(problem).__name__}: {problem}"
        level = ERROR if record.levelno >= logging.ERROR else WARNING
        self.log.say(level, message, library=record.name)
