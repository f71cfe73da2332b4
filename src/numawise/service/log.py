"""The log of a program: text for a person at a terminal, a JSON object a line for everybody else."""

import json
import logging
import time
from typing import IO

from numawise.errors import LONGEST_MESSAGE, cut

INFO, WARNING, ERROR = "info", "warning", "error"


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

    def forget(self, about: str) -> None:
        """What is said next about this is news again."""
        self._last.pop(about, None)


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
