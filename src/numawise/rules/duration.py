"""Lengths of time as Go reads and prints them: ``1m30s``, ``100ms``.

A length is a whole number of nanoseconds, so it is an ``int`` that prints in Go's way.
"""

import re

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
            total += int(whole or "0") * UNITS[unit]
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
