"""A log file read and explained: from bytes to a report.

Rules kept here:

1. One pass, blocks of a fixed size, and bounded groups: memory does not grow with the log.
2. Compressed files (gzip, bzip2, xz) are recognised by their first bytes.
3. Input without a single line of a kubelet is an error that shows what was read.
"""

import bz2
import gzip
import lzma
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, cast

from numawise.apps.logs.admissions import Admissions
from numawise.apps.logs.explain import LogEvidence, explain_admission, settled
from numawise.apps.logs.groups import Groups, LogFilter
from numawise.apps.logs.starts import Starts, explain_start
from numawise.codec.infile import DASH, is_file, is_folder, name_of, opened, reading
from numawise.codec.kubeletlog.reader import Tally, events_in
from numawise.errors import InputError, quoted
from numawise.explain.walk import rounds_walk
from numawise.render.words import counted
from numawise.results.explanation import ADMITTED, REJECTED
from numawise.results.log import (
    UNFINISHED,
    YEARLESS,
    ExplainedAdmission,
    ExplainedStart,
    LoggedAdmission,
    LogReading,
    LogReport,
)
from numawise.strconv import whole_number
from numawise.values import dataclass, replace

BLOCK = 1 << 20
GZIP, BZIP, XZ = b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00"

Progress = Callable[[int], None]
"""Called with the number of bytes that were read of the file itself."""


@dataclass(frozen=True, slots=True)
class Source:
    """Logs to read one after the other, as one."""

    paths: Sequence[str]
    progress: Progress = lambda _: None

    @property
    def size(self) -> int | None:
        """Bytes of all files; None when one is a pipe."""
        total = 0
        for path in self.paths:
            if path == DASH or not is_file(path):
                return None
            with reading(path):
                total += Path(path).stat().st_size
        return total

    def blocks(self) -> Iterator[bytes]:
        """All bytes, unpacked."""
        before = 0
        for path in self.paths:
            if is_folder(path):
                raise InputError("is a directory", file=path, advice="give the log file itself")
            with opened(path) as raw:
                reader = _unpacked(raw)
                position = 0
                ended = True
                while block := _read(reader, path):
                    ended = block.endswith(b"\n")
                    yield block
                    position = _position(raw, position + len(block))
                    self.progress(before + position)
                before += position
            if not ended:
                yield b"\n"  # a file that ends within a line does not run into the next


def _unpacked(raw: IO[bytes]) -> IO[bytes]:
    peek = getattr(raw, "peek", None)
    start = bytes(peek(8)[:8]) if peek is not None else b""
    if start.startswith(GZIP):
        return cast("IO[bytes]", gzip.GzipFile(fileobj=raw))
    if start.startswith(BZIP):
        return cast("IO[bytes]", bz2.BZ2File(raw))
    if start.startswith(XZ):
        return cast("IO[bytes]", lzma.LZMAFile(raw))
    return raw


def _read(reader: IO[bytes], path: str) -> bytes:
    try:
        read1 = getattr(reader, "read1", None)
        return bytes(read1(BLOCK)) if read1 is not None and path == DASH else reader.read(BLOCK)
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise InputError(f"is damaged: {error}", file=name_of(path), advice="copy it again") from error


def _position(raw: IO[bytes], fallback: int) -> int:
    try:
        return raw.tell()
    except OSError:
        return fallback


def is_log(path: str) -> bool:
    """Whether a file begins as a kubelet's log does."""
    tally = Tally()
    with opened(path) as raw:
        try:
            start = _unpacked(raw).read(BLOCK)
        except (OSError, EOFError, zlib.error, lzma.LZMAError):
            return False
    for _ in events_in((start, b"\n"), tally):
        pass
    return tally.kubelet and tally.known > 0


def read_log(source: Source, wanted: LogFilter, given: LogEvidence | None = None) -> LogReport:
    """Everything a log says of the admissions that are asked for."""
    tally = Tally()
    groups = Groups(wanted)
    starts = Starts(lambda event: wanted.timely(event.time))

    def ended(admission: LoggedAdmission) -> None:
        starts.up(admission.origin, admission.last_line)
        groups.add(admission)

    admissions = Admissions(ended, groups.life, starts.failed)
    try:
        for event in events_in(source.blocks(), tally):
            admissions.hear(event)
    except InputError as problem:
        problem.file = problem.file or ", ".join(source.paths)
        raise
    admissions.finish()
    _check(source, tally)
    filtered = tally.known <= sum(tally.counts.values())

    def settle(admission: LoggedAdmission) -> LoggedAdmission:
        kubelet = admissions.kubelets.of(admission.origin)
        return settled(admission, kubelet, given, filtered=filtered)

    findings = []
    for group in groups.settle(settle):
        kubelet = admissions.kubelets.of(group.last.origin)
        repeats = group.repeats
        explained = explain_admission(group.last, kubelet, repeats, given)
        explained = replace(explained, walk=rounds_walk(explained))
        findings.append(ExplainedAdmission(group.last, kubelet, explained, repeats))
    return LogReport(
        LogReading(
            tuple(source.paths),
            tally.size,
            tally.lines,
            tally.known,
            tally.cut,
            tally.first,
            tally.last,
            tally.counts,
        ),
        tuple(findings),
        groups.counts.get(ADMITTED, 0),
        groups.counts.get(REJECTED, 0),
        groups.counts.get(UNFINISHED, 0),
        groups.left_out,
        admissions.kubelets.all,
        tuple(groups.others),
        groups.early,
        tuple(ExplainedStart(one, explain_start(one)) for one in starts.finish()),
        groups.resizes,
        starts.left_out,
    )


def _check(source: Source, tally: Tally) -> None:
    """Refuse what is not a kubelet log (rule 3)."""
    if tally.kubelet and tally.known:
        return
    file = ", ".join(map(name_of, source.paths))
    if not tally.start:
        raise InputError("is empty", file=file, advice="give a kubelet's log, such as journalctl -u kubelet")
    if tally.start[1:].count("\0") * 3 > len(tally.start):  # every other byte: what PowerShell redirects
        raise InputError("is UTF-16, which no kubelet writes", file=file, advice="save it as UTF-8")
    start = tally.start if len(tally.start) <= 60 else tally.start[:60] + "…"
    what = "is not a kubelet log" if not tally.known else "is the log of a program other than the kubelet"
    raise InputError(
        f"{what}: the first of {counted(tally.lines, 'line')} is {quoted(start)}",
        file=file,
        advice="give what journalctl -u kubelet prints, or a file of the kubelet's log",
    )


# --------------------------------------------------------------------------------------------------
# ``--since``: from when on a log is of interest.


AGO = re.compile(r"-?(\d{1,6})\s*(s|m|h|d|w)", re.ASCII)
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
FORMS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d")
YEARLESS_FORMS = ("%m-%d %H:%M:%S", "%m-%d %H:%M", "%m-%d", "%b %d %H:%M:%S", "%b %d %H:%M", "%b %d")
TODAY = ("%H:%M:%S", "%H:%M")
ADVICE = (
    "write 10m or 2h (ago, by this machine's clock), or a time of the log: 08-15 22:24, 2024-08-15 22:24:53"
)


def parse_since(text: str, now: datetime) -> datetime:
    """A length of time before ``now``, or a time as the log has it."""
    text = text.strip().replace("T", " ").removesuffix("Z")
    ago = AGO.fullmatch(text)
    if ago:
        try:
            return now - timedelta(**{UNITS[ago[2]]: whole_number(ago[1])})
        except OverflowError:
            raise InputError(f"{quoted(text)} is before all times", field="--since", advice=ADVICE) from None
    for form in FORMS:
        found = _parsed(text, form)
        if found is not None:
            return found
    for form in YEARLESS_FORMS:
        found = _parsed(f"{YEARLESS} {text}", f"%Y {form}")
        if found is not None:
            return found
    for form in TODAY:
        found = _parsed(text, form)
        if found is not None:
            return now.replace(hour=found.hour, minute=found.minute, second=found.second, microsecond=0)
    raise InputError(f"{quoted(text)} is not a time", field="--since", advice=ADVICE)


def _parsed(text: str, form: str) -> datetime | None:
    try:
        return datetime.strptime(text, form)  # noqa: DTZ007 - a log names no zone
    except ValueError:
        return None
