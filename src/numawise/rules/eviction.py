"""Hard eviction thresholds: which are allowed, and how much memory they keep free.

Rules kept here:

1. A threshold is a quantity above zero, or a percentage from 0 to 100.  ``0%`` and ``100%``,
   written exactly so, are no threshold at all.
2. A percentage is held in single precision, so 5% of 128Gi is 6871947776 and not ...673.
3. Only ``memory.available`` reserves memory; the other signals are merely checked.
4. When several are wrong the kubelet names any of them; here signals are taken by name.
"""

import math
import re
import struct
from collections.abc import Mapping

from numawise.quantity import BINARY, Quantity
from numawise.rules.versions import REFERENCE, Dated, Version, at, manners_of
from numawise.strconv import quote

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
