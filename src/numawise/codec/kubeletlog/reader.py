"""Blocks of bytes → events: the quick look, and the joining of what was broken.

Rules kept here:

1. A line is decoded only when its message starts as a known one; finding the starts is one run
   of a pattern over the block.  All other lines are counted, not read.
2. A block ends where a line ends; what is left over goes before the next block.  A line that goes on in the
   next one (``part``), or a value over several lines, waits for its rest, up to ``LONGEST``.
3. ``journalctl -o export`` is recognised by its first line; its entries end with an empty line.
"""

import re
from collections.abc import Generator, Iterable, Iterator
from datetime import datetime

from numawise.codec.kubeletlog.framing import Framed, Headed, continuation, export_entry, headed, unframe
from numawise.codec.kubeletlog.plain import plain_event
from numawise.codec.kubeletlog.processes import Processes
from numawise.codec.kubeletlog.structured import READINGS, structured_event
from numawise.errors import InputError
from numawise.results.log import Event
from numawise.values import dataclass, field, replace

SHOWN = 20
"""So much of a message is looked at to see whether it may be a known one."""
WORDS = re.compile(rb'\.go:\d+(?:\] \\?"?|\\?",\\?"msg\\?": ?\\?")([^"\\]{1,20})')
"""How a message starts, behind its source file."""
BARE_JSON = re.compile(rb'\\?"msg\\?": ?\\?"([^"\\]{1,20})')
"""The same in JSON of 1.23 and before, which names no source file."""
BYTES = re.compile(rb'"MESSAGE" ?: ?\[')
"""A message that the journal gives as a list of bytes: it may be anything."""
ENDINGS = (b"Error: failed to ", b"panic: failed to merge ")
"""What a kubelet writes that ends before it logs."""
ENDING = re.compile(b"|".join(ENDINGS))
STAMPED = (b'"ts":', b'\\"ts\\":')
PLAIN_STARTS = (
    "[cpumanager] Topology",
    "[cpumanager] static policy",
    "[cpumanager] allocateC",
    "[cpumanager] updated d",
    "[cpumanager] unable to",
    "[cpumanager] Allocate",
    "[cpumanager] AddContai",
    "[cpumanager] CPUs alre",
    "[cpumanager] detected",
    "[cpumanager] could not",
    "[cpumanager] policy st",
    "[devicemanager] Unable",
    "[devicemanager] Resour",
    "Making allocation reque",
    "Event(v1.ObjectReferenc",
    "Patch status for pod ",
    "Status for pod ",
    "Failed to admit pod ",
    "Predicate failed on Pod",
    "SyncLoop (ADD, ",
    "Receiving a new pod ",
    "Pod ",
    "SyncLoop (PLEG): ",
    "failed to run Kubelet: ",
    "failed to run kubelet: ",
    "failed to load Kubelet ",
    "invalid configuration: ",
    "[invalid configuration: ",
    "unrecognized feature gate",
    "[unrecognized feature gate",
    "cannot set feature gate ",
    "[cannot set feature gate",
    "Failed to start ContainerManager ",
)
TELLING = frozenset(text[:SHOWN].encode() for text in (*READINGS, *PLAIN_STARTS))
TOPOLOGY, BRACKET = b"[topologymanager] ", ord("[")
"""All of these are known."""
VERSION, LETTER_V = b"Version: v1.", ord("V")
KUBELET = (
    b"kubelet",
    b"kuberuntime",
    b"pod_workers.go",
    b"topology_manager.go",
    b"scope_container.go",
    b"cpu_manager.go",
)
EXPORT = b"__CURSOR="
LONGEST = 1 << 22
"""Bytes that one line may have; longer ones are cut."""
WITHOUT_LINES, WITHOUT_KUBELET = 1 << 26, 1 << 30
"""Bytes after which an input without a line end, or without a line of Kubernetes, is no log."""


@dataclass(slots=True)
class Tally:
    """What was read so far."""

    size: int = 0
    lines: int = 0
    known: int = 0
    """Lines with the head of a kubelet's log."""
    cut: int = 0
    """Lines about admissions that are cut off."""
    kubelet: bool = False
    """Something shows that this is a kubelet and no other program of Kubernetes."""
    first: datetime | None = None
    last: datetime | None = None
    start: str = ""
    """How the input begins."""
    counts: dict[str, int] = field(default_factory=dict)
    """Events by kind."""


def events_in(blocks: Iterable[bytes], tally: Tally) -> Iterator[Event]:
    """Every event of a log, in its order."""
    yield from _Reader(tally).read(blocks)


class _Reader:
    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.export = False
        self.since_line = 0
        self.processes = Processes()

    def read(self, blocks: Iterable[bytes]) -> Iterator[Event]:
        rest = b""
        begun = False
        for block in blocks:
            self.tally.size += len(block)
            self._check(block)
            rest += block
            if not begun:
                begun = self._begins(rest)
                if not begun:
                    continue
            end = self._end(rest)
            if end:
                done = yield from self._whole(rest[:end], last=False)
                rest = rest[done:]
            elif len(rest) > LONGEST:
                yield from self._whole(rest + b"\n", last=True)
                rest = b""
        if rest:
            yield from self._whole(rest if rest.endswith(b"\n") else rest + b"\n", last=True)

    def _check(self, block: bytes) -> None:
        """Refuse what goes on and on and is no log: a device, a pipe of something else."""
        self.since_line = 0 if b"\n" in block else self.since_line + len(block)
        if self.since_line > WITHOUT_LINES:
            raise InputError(
                f"{WITHOUT_LINES >> 20} MiB have no line end", advice="give a log of the kubelet"
            )
        if self.tally.size > WITHOUT_KUBELET and not self.tally.known:
            raise InputError(
                f"the first {WITHOUT_KUBELET >> 30} GiB have no line of a kubelet",
                advice="give a log of the kubelet, such as 'journalctl -u kubelet'",
            )

    def _begins(self, data: bytes) -> bool:
        """Look at how the input begins, once there is enough of it."""
        begin = data.lstrip()
        if begin:
            self.tally.start = begin[:200].decode(errors="replace").split("\n")[0].strip()
        self.export = begin.startswith(EXPORT)
        return len(begin) >= len(EXPORT)

    def _end(self, data: bytes) -> int:
        """Where the last whole line (or entry) of the data ends."""
        if self.export:
            found = data.rfind(b"\n\n")
            return found + 2 if found >= 0 else 0
        return data.rfind(b"\n") + 1

    def _whole(self, data: bytes, *, last: bool) -> Generator[Event, None, int]:
        """The events of whole lines; returns how much was done with."""
        tally = self.tally
        done = len(data)
        before = tally.lines
        starts, known, ending = _known_messages(data)
        spans = _around(data, starts, b"\n\n" if self.export else b"\n")
        number, counted = before, 0
        at = 0
        for start, end in spans:
            if start < at:
                continue
            number += data.count(b"\n", counted, start)
            counted = start
            if self.export:
                framed, at, whole = export_entry(data[start:end]), end, True
            else:
                framed, at, whole = self._joined(data, start, end)
            if not whole and not last and done - start < LONGEST:
                done = start
                break
            event = self._event(framed, number + 1)
            if event is not None:
                yield event
        tally.lines = before + data.count(b"\n", 0, done)
        if done < len(data):
            _, known, ending = _known_messages(data[:done])
        tally.known += known
        if known and tally.first is None:
            first = WORDS.search(data) or BARE_JSON.search(data)
            self._seen(data, first.start() if first else ending)
        if known:
            self._seen(data, ending)
        if not tally.kubelet:
            tally.kubelet = any(word in data for word in KUBELET)
        return done

    def _seen(self, data: bytes, at: int) -> None:
        """Take down the time of a line."""
        ((start, end),) = _around(data, [at], b"\n\n" if self.export else b"\n")
        raw = data[start:end]
        framed = export_entry(raw) if self.export else unframe(raw.decode(errors="replace"))
        line = headed(framed) if framed is not None else None
        if line is not None and line.time is not None:
            self.tally.first = self.tally.first or line.time
            self.tally.last = line.time

    def _joined(self, data: bytes, start: int, end: int) -> tuple[Framed | None, int, bool]:
        """A line with what belongs to it, where that ends, and whether all of it is there."""
        framed = unframe(data[start:end].decode(errors="replace"))
        if framed is None:
            return None, end + 1, True
        at = end + 1
        body, more = framed.body, framed.part
        block = body.endswith("=<")
        if not more and not block:
            return framed, at, True
        while more or block:
            if at >= len(data):
                return replace(framed, body=body), at, False
            end = data.find(b"\n", at)
            following = continuation(data[at : end if end >= 0 else len(data)].decode(errors="replace"))
            if more:
                body += following.body
                more = following.part
                block = not more and body.endswith("=<")
            else:
                body += "\n" + following.body
                block = not following.body.startswith(" >") and following.body.startswith("\t")
            at = (end if end >= 0 else len(data)) + 1
        return replace(framed, body=body), at, True

    def _event(self, framed: Framed | None, number: int) -> Event | None:
        line = headed(framed) if framed is not None else None
        if line is None:
            return None
        tally = self.tally
        event = _event_of(line)
        if event is None:
            return None
        tally.kubelet = True
        tally.cut += event.cut
        tally.counts[event.kind] = tally.counts.get(event.kind, 0) + 1
        origin = self.processes.origin_of(event, line.origin)
        return replace(event, line=number, origin=origin, time=line.time)


def _event_of(line: Headed) -> Event | None:
    found = structured_event(line) if line.fields is not None else None
    return found or (plain_event(line) if line.fields is None or not line.fields.values else None)


def _known_messages(data: bytes, pattern: re.Pattern[bytes] = WORDS) -> tuple[list[int], int, int]:
    """Where known messages are, how many lines have the head of a klog, and the last."""
    starts = []
    known = 0
    found = None
    for found in pattern.finditer(data):
        known += 1
        word = found[1]
        if (
            word in TELLING
            or (word[0] == BRACKET and word.startswith(TOPOLOGY))
            or (word[0] == LETTER_V and word.startswith(VERSION))
        ):
            starts.append(found.start())
    if not known and pattern is WORDS and any(stamp in data for stamp in STAMPED):
        return _known_messages(data, BARE_JSON)
    last = found.start() if found is not None else -1
    if any(words in data for words in ENDINGS):
        for found in ENDING.finditer(data):
            known += 1
            starts.append(found.start())
            last = max(last, found.start())
        starts.sort()
    if b'"MESSAGE"' in data:
        for found in BYTES.finditer(data):
            known += 1
            starts.append(found.start())
            last = max(last, found.start())
        starts.sort()
    return starts, known, last


def _around(data: bytes, starts: list[int], separator: bytes) -> list[tuple[int, int]]:
    """Start and end of the lines (or entries) that these places are in, in order."""
    size = len(separator)
    found: dict[int, int] = {}
    for at in starts:
        end = data.find(separator, at)
        start = data.rfind(separator, 0, at)
        found[0 if start < 0 else start + size] = len(data) if end < 0 else end
    return list(found.items())
