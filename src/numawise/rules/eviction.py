"""Hard eviction thresholds, and lengths of time as Go reads and prints them (``1m30s``).

A length is a whole number of nanoseconds, so it is an ``int`` that prints in Go's way.
"""

import math
import re
import struct
from collections.abc import Mapping

from numawise.quantity import BINARY, Quantity
from numawise.rules.versions import REFERENCE, Dated, Version, at, manners_of
from numawise.strconv import quote, whole_number

UNITS = {
    "ns": 1,
    "us": 10**3,
    "\u00b5s": 10**3,  # micro sign
    "\u03bcs": 10**3,  # Greek mu
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
LARGEST = 2**63 - 1
PIECE = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]*)", re.ASCII)


class Duration(int):
    """Nanoseconds."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> "Duration":
        """Read a length of time; raise ``ValueError`` in Go's words."""
        negative = text[:1] == "-"
        rest = text[1:] if text[:1] in ("-", "+") else text
        if rest == "0":
            return cls(0)
        if not rest:
            raise _invalid(text)
        total = 0
        while rest:
            found = PIECE.match(rest)
            if not found or not (found[1] or found[2]):
                raise _invalid(text)
            whole, fraction, unit = found[1], found[2] or "", found[3]
            if not unit:
                raise ValueError(f"time: missing unit in duration {_quoted(text)}")
            if unit not in UNITS:
                raise ValueError(f"time: unknown unit {_quoted(unit)} in duration {_quoted(text)}")
            total += whole_number(whole or "0") * UNITS[unit]
            if fraction:
                fraction = fraction[:18]  # what fits into 64 bits; the rest cannot be seen
                total += int(int(fraction) * (UNITS[unit] / 10 ** len(fraction)))
            if total > LARGEST + negative:
                raise _invalid(text)
            rest = rest[found.end() :]
        return cls(-total if negative else total)

    @property
    def seconds(self) -> float:
        """The same in seconds."""
        whole, part = divmod(abs(self), 10**9)
        seconds = whole + part / 1e9
        return -seconds if self < 0 else seconds

    def __str__(self) -> str:
        sign, size = ("-", -int(self)) if self < 0 else ("", int(self))
        if size == 0:
            return "0s"
        for unit, name in ((10**3, "ns"), (10**6, "\u00b5s"), (10**9, "ms")):
            if size < unit:
                return f"{sign}{_decimal(size, unit // 1000)}{name}"
        minutes, nanos = divmod(size, 60 * 10**9)
        text = f"{_decimal(nanos, 10**9)}s"
        if minutes:
            hours, minutes = divmod(minutes, 60)
            text = f"{minutes}m{text}" if not hours else f"{hours}h{minutes}m{text}"
        return sign + text


def _decimal(size: int, unit: int) -> str:
    whole, part = divmod(size, unit)
    digits = str(part).zfill(len(str(unit)) - 1).rstrip("0") if part else ""
    return f"{whole}.{digits}" if digits else str(whole)


def _invalid(text: str) -> ValueError:
    return ValueError(f"time: invalid duration {_quoted(text)}")


def _quoted(text: str) -> str:
    """Text in quotes; Go's time package spells out every byte that is not plain ASCII."""
    out = []
    for char in text:
        if char in '"\\':
            out.append("\\" + char)
        elif " " <= char < "\x80":
            out.append(char)
        else:
            out.extend(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogatepass"))
    return f'"{"".join(out)}"'


# --------------------------------------------------------------------------------------------------
# Hard eviction thresholds: which are allowed, and how much memory they keep free.
#
# Rules kept here:
#
# 1. A threshold is a quantity above zero, or a percentage from 0 to 100.  ``0%`` and ``100%``,
#    written exactly so, are not a threshold at all.
# 2. A percentage is held in single precision, so 5% of 128Gi is 6871947776 and not ...673.
# 3. Only ``memory.available`` reserves memory; the other signals are merely checked.
# 4. When several are wrong the kubelet names any of them; here signals are taken by name.


DEFAULTS: Mapping[str, str] = {
    "memory.available": "100Mi",
    "nodefs.available": "10%",
    "nodefs.inodesFree": "5%",
    "imagefs.available": "15%",
    "imagefs.inodesFree": "5%",
}
SIGNALS = (
    *map(Dated, DEFAULTS),
    Dated("allocatableMemory.available"),
    Dated("containerfs.available", (1, 29)),
    Dated("containerfs.inodesFree", (1, 29)),
    Dated("pid.available"),
)
DEFAULT_SIGNALS = tuple(
    Dated(signal, (1, 30)) if signal == "imagefs.inodesFree" else Dated(signal) for signal in DEFAULTS
)
NO_THRESHOLD = ("0%", "100%")
DIGITS = r"[0-9]+(?:_[0-9]+)*"
NUMBER = re.compile(rf"[+-]?(?:{DIGITS}\.?(?:{DIGITS})?|\.{DIGITS})(?:[eE][+-]?{DIGITS})?", re.ASCII)
UNBOUND = re.compile(r"[+-]?inf(inity)?|nan", re.ASCII | re.IGNORECASE)
LEAST = -(2**63)
LARGEST_SINGLE = (2**24 - 0.5) * 2.0**104  # from here on it rounds to infinity


def defaults(version: Version = REFERENCE) -> Mapping[str, str]:
    """The thresholds of a release where none is named."""
    return {signal: DEFAULTS[signal] for signal in at(version, DEFAULT_SIGNALS)}


def thresholds(statements: Mapping[str, str], version: Version = REFERENCE) -> Mapping[str, Quantity | float]:
    """Signal → amount or share; raise ``ValueError`` in the kubelet's words."""
    known = frozenset(at(version, SIGNALS))
    largest = 1 if manners_of(version).shares_end_at_all else 100
    found: dict[str, Quantity | float] = {}
    for signal, text in sorted(statements.items()):
        if signal not in known:
            raise ValueError(f"unsupported eviction signal {signal}")
        if text not in NO_THRESHOLD:
            found[signal] = _share(signal, text, largest) if text.endswith("%") else _amount(signal, text)
    return found


def memory_kept_free(threshold: Quantity | float, capacity: int) -> Quantity:
    """What a threshold of ``memory.available`` reserves on a machine with so many bytes."""
    if isinstance(threshold, Quantity):
        return threshold
    share = float(capacity) * threshold
    return Quantity.of(int(share) if math.isfinite(share) else LEAST, BINARY)


def _amount(signal: str, text: str) -> Quantity:
    amount = Quantity.parse(text)
    if amount.nano <= 0:
        raise ValueError(f"eviction threshold {signal} must be positive: {amount}")
    return amount


def _share(signal: str, text: str, largest: int) -> float:
    share = _single(_number(text.rstrip("%")) / 100)
    if share < 0:
        raise ValueError(f"eviction percentage threshold {signal} must be >= 0%: {text}")
    if share > largest:
        raise ValueError(f"eviction percentage threshold {signal} must be <= 100%: {text}")
    return share


def _number(text: str) -> float:
    """Read a number in single precision; raise ``ValueError`` in Go's words."""
    if UNBOUND.fullmatch(text):
        return float(text)
    if not NUMBER.fullmatch(text):
        raise ValueError(f"strconv.ParseFloat: parsing {quote(text)}: invalid syntax")
    number = float(text)
    if abs(number) >= LARGEST_SINGLE:
        raise ValueError(f"strconv.ParseFloat: parsing {quote(text)}: value out of range")
    return _single(number)


def _single(number: float) -> float:
    """The nearest number of single precision."""
    return float(struct.unpack("f", struct.pack("f", number))[0])
