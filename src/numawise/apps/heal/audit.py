"""The audit log: every change, its reason and its evidence, written before it is made; and what came of it.

Rules kept here:

1. A line is a JSON object.  ``intended`` is written before the change is asked for, and on the disk before
   one that cannot be taken back; ``done``, ``refused`` or ``failed`` follows with the same ``change``.  What
   cannot be written down is not done.
2. Nothing is changed without evidence in the line: what was seen, at which version.
"""

import contextlib
import itertools
import json
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any

from numawise.codec.outfile import check_place
from numawise.codec.stamps import micro_stamp
from numawise.errors import LONGEST_MESSAGE, HostError, NumawiseError, cut
from numawise.kube.client import ApiConflict, ApiRefused
from numawise.service.log import INFO, ServiceLog
from numawise.values import dataclass

LASTING = ("delete", "evict")
"""What cannot be taken back: its line is on the disk first."""
OWN_FILE = 0o640
INTENDED, DONE, NOT_DONE, FAILED_CHANGE = "intended", "done", "refused", "failed"


@dataclass(frozen=True, slots=True)
class AuditedChange:
    """A change, and why it is made."""

    action: str
    """``hold``, ``prolong``, ``end-hold``, ``release``, ``delete`` or ``evict``."""
    kind: str
    namespace: str
    name: str
    uid: str
    why: str
    evidence: Mapping[str, Any]


class AuditLog:
    """Writes lines to a file, or into the program's own log."""

    def __init__(
        self, path: str, log: ServiceLog, identity: str, wall: Callable[[], float] = time.time
    ) -> None:
        self.log, self.identity, self.wall = log, identity, wall
        self.counts: dict[tuple[str, str], int] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._stream: IO[bytes] | None = None
        self._path, self._on_disk = path, False
        if path:
            check_place(path)
            try:
                handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, OWN_FILE)
                self._stream = os.fdopen(handle, "ab", buffering=0)
                self._on_disk = stat.S_ISREG(os.fstat(handle).st_mode)
            except OSError as problem:
                raise HostError(
                    f"{path} cannot be written: {problem.strerror}", "name another --audit"
                ) from None

    @contextlib.contextmanager
    def change(self, change: AuditedChange) -> Iterator[None]:
        """Around a change (rule 1); what goes wrong is written, and raised."""
        number = f"{self.identity}-{next(self._numbers)}"
        self._write(number, change, INTENDED, "")
        try:
            yield
        except (ApiConflict, ApiRefused) as problem:
            self._write(number, change, NOT_DONE, str(problem))
            raise
        except NumawiseError as problem:
            self._write(number, change, FAILED_CHANGE, str(problem))
            raise
        self._write(number, change, DONE, "")

    def close(self) -> None:
        """No more lines."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _write(self, number: str, change: AuditedChange, outcome: str, problem: str) -> None:
        line: dict[str, Any] = {
            "time": micro_stamp(self.wall()),
            "change": number,
            "outcome": outcome,
            "action": change.action,
            "kind": change.kind,
            "namespace": change.namespace,
            "name": change.name,
            "uid": change.uid,
        }
        if outcome == INTENDED:
            line |= {"why": cut(change.why, LONGEST_MESSAGE), "evidence": dict(change.evidence)}
        if problem:
            line["problem"] = cut(problem, LONGEST_MESSAGE)
        with self._lock:
            key = change.action, outcome
            self.counts[key] = self.counts.get(key, 0) + 1
            if self._stream is None:
                self.log.say(INFO, f"audit: {change.action} {outcome}", audit=line)
                return
            raw = (json.dumps(line, ensure_ascii=True, default=str) + "\n").encode()
            try:
                whole = self._stream.write(raw) == len(raw)
                if outcome == INTENDED and change.action in LASTING and self._on_disk:
                    os.fsync(self._stream.fileno())
            except (OSError, ValueError) as failure:
                raise HostError(f"{self._path} cannot be written: {failure}", "make room for it") from None
            if not whole:
                raise HostError(f"{self._path} cannot be written: a line was cut", "make room for it")
