"""How a picture words things: counts, amounts of memory, ranges of CPUs; and how a line is broken."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from numawise.errors import visible
from numawise.machine.hardware import Hardware
from numawise.machine.locality import cores_in, first_cpus
from numawise.quantity import Quantity
from numawise.sets import format_ids, ids_of
from numawise.strconv import whole_number

if TYPE_CHECKING:
    from numawise.engine.predicates import Insufficient

LONGEST_RANGES = 30


def times_text(count: int) -> str:
    """``once``, ``twice``, ``132 times``."""
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


def counted(count: int, word: str) -> str:
    """``1 socket``, ``2 sockets``."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def both(words: Sequence[str], last: str = "and") -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}" if words else ""


MOST_BYTES = 1_000_000 << 40


def bytes_text(amount: int) -> str:
    """An amount of memory in the largest unit that keeps it readable."""
    for unit, size in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        whole = amount >= size and (unit != "TiB" or amount % size == 0 or amount >= 10 * size)
        if whole:
            if amount >= MOST_BYTES:
                return "more than 1,000,000 TiB"
            return f"{amount / size:.1f}".removesuffix(".0") + f" {unit}"
    return f"{amount} bytes"


def amount_text(resource: str, size: int) -> str:
    """An amount as manifests write it, CPUs given in thousandths."""
    if resource == "cpu":
        return str(Quantity(size * 10**6))
    in_bytes = resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")
    return str(Quantity.of(size)) if in_bytes else str(size)


def insufficient_text(short: "Insufficient") -> str:
    """``2 asked for, 1 of 8 not requested yet``."""
    requested, total = (amount_text(short.resource, size) for size in (short.requested, short.capacity))
    left = amount_text(short.resource, max(0, short.capacity - short.used))
    return f"{requested} asked for, {left} of {total} not requested yet"


def ranges(bits: int) -> str:
    """Ids as ranges; where these grow long, as steps, and at last cut short with their count."""
    plain = format_ids(bits)
    if len(plain) <= LONGEST_RANGES:
        return plain
    ids = list(ids_of(bits))
    step = ids[1] - ids[0]
    if all(second - first == step for first, second in pairwise(ids)):
        return f"{ids[0]}-{ids[-1]} step {step}"
    head = plain[: LONGEST_RANGES - 8].rpartition(",")[0] or plain.partition(",")[0]
    return f"{head},… ({len(ids)})"


def runs(numbers: Iterable[int]) -> str:
    """Any numbers as runs: ``0-3,8``; they may be far too large for a set of bits."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][-1] + 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return ",".join("-".join(map(str, part)) for part in parts)


NUMBERED = re.compile(r"(.*[^0-9])(0|[1-9][0-9]{0,4})", re.ASCII)


def gpu_ranges(names: Iterable[str]) -> str:
    """Names as ranges where they count up: ``GPU0-3,6``; in the order in which they come.

    ``--gpu-ids`` understands it.
    """
    groups: list[tuple[str, list[list[int]]]] = []
    for name in names:
        parts = NUMBERED.fullmatch(name)
        stem, number = (parts[1], whole_number(parts[2])) if parts else (name, None)
        if number is None or not groups or groups[-1][0] != stem or not groups[-1][1]:
            groups.append((stem, [] if number is None else [[number]]))
        elif groups[-1][1][-1][-1] == number - 1:
            groups[-1][1][-1][1:] = [number]
        else:
            groups[-1][1].append([number])
    return " ".join(stem + ",".join("-".join(map(str, run)) for run in runs) for stem, runs in groups)


def cpus_text(hardware: Hardware, cpus: int) -> str:
    """CPUs as a person says them: cores, then the threads beside them."""
    cores = cores_in(hardware, cpus)
    firsts = first_cpus(cores)
    rest = cpus & ~firsts
    if not cpus:
        return "no CPUs"
    if not rest or not cores:
        return f"CPUs {ranges(cpus)}" if cpus.bit_count() > 1 else f"CPU {ranges(cpus)}"
    if all(core // (core & -core) + 1 == 1 << core.bit_count() for core in cores):
        if len(cores) == 1:
            return f"CPUs {ranges(cpus)}, one core"
        return f"CPUs {ranges(cpus)}, a core is {format_ids(cores[0])}"
    word = "cores" if len(cores) > 1 else "core"
    return f"{word} {ranges(firsts)}, threads {ranges(rest)}"


def clean(text: str) -> str:
    """Text on one line, with its control characters visible."""
    return visible(" ".join(text.split("\n"))).strip()


def manifest_lines(text: str) -> list[str]:
    """The lines of a manifest as they are, but for control characters."""
    return [visible(line.rstrip()) for line in text.strip("\n").split("\n")] if text.strip() else []


def columns(text: str) -> int:
    """Columns that a text takes on a terminal: wide characters take two, combining ones none."""
    return len(text) if text.isascii() else _drawn(text)


@lru_cache(maxsize=1024)
def _drawn(text: str) -> int:
    from unicodedata import combining, east_asian_width  # noqa: PLC0415 - few texts need it

    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


BREAKS = " ,"
"""Behind these a line may be broken."""


def wrap(
    text: str, room: int, measure: Callable[[str], int], *, breaks: str = BREAKS, anywhere: bool = False
) -> list[str]:
    """Break a line at blanks and after commas so that each part fits.

    A word that is longer stands alone on its line, as it is; ``anywhere``: it is cut.
    """
    parts: list[str] = []
    now = ""
    for piece in pieces(text, breaks):
        if measure((now + piece).rstrip()) <= room:
            now += piece
            continue
        if now.strip():
            parts.append(now.rstrip())
        now = piece.lstrip()
        while anywhere and measure(now.rstrip()) > room and len(now) > 1:
            size = next((n for n in range(len(now), 1, -1) if measure(now[:n]) <= room), 1)
            parts.append(now[:size])
            now = now[size:]
    if now.strip() or not parts:
        parts.append(now.rstrip())
    return parts


def pieces(text: str, breaks: str = BREAKS) -> Iterator[str]:
    """What a line may be broken into."""
    start = 0
    for i, c in enumerate(text):
        if c in breaks:
            yield text[start : i + 1]
            start = i + 1
    if start < len(text):
        yield text[start:]


def percent(share: float, *, up: bool = False) -> str:
    """A share in tenths of a percent; never rounded to all, or with ``up`` to nothing, when it is not."""
    tenths = math.ceil(share * 1000 - 1e-9) if up else math.floor(share * 1000 + 1e-9)
    return f"{tenths / 10:.1f}".removesuffix(".0") + " %"
