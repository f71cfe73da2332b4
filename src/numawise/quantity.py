"""Amounts as Kubernetes writes them: ``500m``, ``8Gi``, ``1e3``.

Rules kept here:

1. A value is a whole number of *nano* units; anything finer is rounded away from zero.
2. ``value`` and ``milli`` round away from zero and wrap at 64 bits.
3. ``exact`` tells whether the *text* was read on the kubelet's integer path.  The Memory
   Manager needs that, so ``1.5Gi`` and ``1536Mi`` are equal in value and not in use.
4. ``str`` gives the canonical text: no fraction, the largest suffix that keeps it whole.
5. A size typed on a command line is not read like one in a manifest: ``64g``, ``64G``, ``64Gi`` and ``64GiB``
   are all 64 · 2³⁰ bytes there (``parse_size``), as docker, systemd and Slurm read them.
"""

import re
from functools import lru_cache

from numawise.errors import InputError, quoted
from numawise.strconv import MOST_DIGITS, whole_number
from numawise.values import dataclass

NANO = 10**9
GRAMMAR = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)", re.ASCII)
EXPONENT = re.compile(r"[eE]([-+]?[0-9]+)", re.ASCII)

DECIMAL, BINARY, SCIENTIFIC = "DecimalSI", "BinarySI", "DecimalExponent"
DECIMAL_SUFFIX = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY_SUFFIX = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
DECIMAL_TEXT = {power: suffix for suffix, power in DECIMAL_SUFFIX.items()}
LARGEST = 2**63 - 1
LONGEST = 1000
FAST_DIGITS = 18  # what surely fits into 64 bits

BAD_FORM = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
BAD_SUFFIX = "unable to parse quantity's suffix"

SIZE_UNITS = {"": 0, "b": 0} | {
    letter + end: 10 * power for power, letter in enumerate("kmgtp", start=1) for end in ("", "b", "i", "ib")
}
KIBI = 10
LARGEST_SIZE = 1 << 60
SIZE_ADVICE = "write it like 64g, 64Gi or 512m (1024-based, in any command)"


def parse_size(text: str, field: str = "--memory", least: int = 1) -> int:
    """Bytes above 0 of a size that a person typed, rounded down (rule 5); a plain number counts bytes.

    ``least``: what is smaller cannot be meant, and the next larger unit is offered instead.
    """
    word = text.strip().lower()
    number = word.rstrip("abcdefghijklmnopqrstuvwxyz")
    shift = SIZE_UNITS.get(word[len(number) :])
    whole, _, fraction = number.strip().partition(".")
    digits = whole + (fraction := fraction.rstrip("0")[:MOST_DIGITS])
    if shift is None or not whole or not (digits.isascii() and digits.isdecimal()):
        raise InputError(f"{quoted(text)} is not a size", field=field, advice=SIZE_ADVICE)
    size: int = (whole_number(digits) << shift) // 10 ** len(fraction)
    if not 0 < size <= LARGEST_SIZE:
        raise InputError(
            f"{quoted(text)} is out of range",
            field=field,
            advice="give at least one byte and at most 1024 PiB",
        )
    if size < least:
        meant = number.strip() + ("m" if shift == KIBI else "g")
        raise InputError(
            f"{quoted(text)} is {size} bytes, too little for any program", field=field, advice=f"{meant}?"
        )
    return size


@dataclass(frozen=True, slots=True)
class Quantity:
    """An amount of a resource."""

    nano: int = 0
    style: str = DECIMAL
    exact: bool = True

    @staticmethod
    def parse(text: str) -> "Quantity":
        """Read a quantity; raise ``ValueError`` in the kubelet's words."""
        return _parse(text)

    @staticmethod
    def of(value: int, style: str = BINARY) -> "Quantity":
        """Make a quantity of so many whole units."""
        return Quantity(value * NANO, style)

    @property
    def value(self) -> int:
        """Whole units, rounded away from zero."""
        return _wrap(_away(self.nano, NANO))

    @property
    def milli(self) -> int:
        """Thousandths, rounded away from zero."""
        return _wrap(_away(self.nano, NANO // 1000))

    @property
    def whole(self) -> bool:
        """True when the amount has no thousandths left over, as the CPU Manager judges it."""
        return self.value * 1000 == self.milli

    def ceil_milli(self) -> "Quantity":
        """Round up to thousandths, as the API server does on reading."""
        if self.nano % (NANO // 1000) == 0:
            return self
        return Quantity(_away(self.nano, NANO // 1000) * (NANO // 1000), self.style, exact=False)

    def canonical(self) -> "Quantity":
        """Parse the canonical text again: what arrives through the API server."""
        return _parse(str(self))

    def __add__(self, other: "Quantity") -> "Quantity":
        if not self.nano or not other.nano:
            return other if not self.nano else self
        total = self.nano + other.nano
        exact = self.exact and other.exact and abs(total) <= LARGEST * NANO
        return Quantity(total, self.style, exact)

    def __str__(self) -> str:
        if self.nano == 0:
            return "0"
        sign, size = ("-", -self.nano) if self.nano < 0 else ("", self.nano)
        if self.style == BINARY and size >= 1024 * NANO and size % NANO == 0:
            units, suffix = size // NANO, ""
            for candidate in BINARY_SUFFIX:
                if units % 1024:
                    break
                units, suffix = units // 1024, candidate
            return f"{sign}{units}{suffix}"
        power = -9
        while size % 1000 == 0 and power < 18:
            size, power = size // 1000, power + 3
        if self.style == SCIENTIFIC:
            return f"{sign}{size}e{power}" if power else f"{sign}{size}"
        return f"{sign}{size}{DECIMAL_TEXT[power]}"


@lru_cache(maxsize=4096)
def _parse(text: str) -> Quantity:
    if text == "0":
        return Quantity()
    if len(text) > LONGEST:
        raise ValueError(f"it has {len(text)} characters, and no amount needs more than {LONGEST}")
    found = GRAMMAR.fullmatch(text)
    if not found or not text:
        raise ValueError(BAD_FORM)
    sign, number, fraction, suffix = found.groups("")
    whole = number.lstrip("0")
    style, power = _suffix(suffix)
    if abs(power) > 1000:
        raise ValueError(BAD_SUFFIX)
    digits = int(whole + fraction or "0")

    if style == BINARY:
        scaled = digits * (NANO << power)
        exact = not fraction and 15 - len(whole) - power * 3 // 10 - 1 >= 0 and digits << power <= LARGEST
        exponent = -len(fraction)
    else:
        scaled = digits * NANO
        exponent = power - len(fraction)
        exact = (
            len(whole) + len(fraction) <= FAST_DIGITS and exponent >= 0 and digits * 10**exponent <= LARGEST
        )
    nano = scaled * 10**exponent if exponent >= 0 else -(-scaled // 10**-exponent)
    if style == BINARY:
        nano = min(nano, LARGEST * NANO)
        if 0 < nano < NANO:
            style = DECIMAL
    return Quantity(-nano if sign == "-" else nano, style, exact)


def _suffix(text: str) -> tuple[str, int]:
    """The style a suffix stands for, and its power (of two for binary, else of ten)."""
    if text in DECIMAL_SUFFIX:
        return DECIMAL, DECIMAL_SUFFIX[text]
    if text in BINARY_SUFFIX:
        return BINARY, BINARY_SUFFIX[text]
    found = EXPONENT.fullmatch(text)
    if not found:
        raise ValueError(BAD_SUFFIX)
    return SCIENTIFIC, whole_number(found[1])


def _away(number: int, unit: int) -> int:
    """Divide, rounding away from zero."""
    return -(-number // unit) if number >= 0 else number // unit


def _wrap(number: int) -> int:
    """Keep 64 signed bits."""
    return (number + 2**63) % 2**64 - 2**63
