"""Sets of small ids, each one int: bit *i* stands for id *i*.

Value types at the borders (``CpuSet`` and ``NumaSet``, so that a checker refuses one for
the other); inside hot loops the bare ``bits`` travel, with the functions below.
"""

from collections.abc import Iterable, Iterator
from typing import Self

from numawise.strconv import parse_int, quote
from numawise.values import dataclass

LARGEST_ID, LONGEST_LIST = 1 << 16, 1 << 20
"""Far beyond any machine; they keep a mistyped range from filling the memory."""


def bits_of(ids: Iterable[int]) -> int:
    """Pack ids into one int."""
    bits = 0
    for i in ids:
        bits |= 1 << i
    return bits


def ids_of(bits: int) -> Iterator[int]:
    """Walk the ids of a packed set, ascending."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


def format_ids(bits: int) -> str:
    """Write a packed set in the kernel's list format, such as ``0-3,8``."""
    parts = []
    at = 0
    while bits:
        skip = (bits & -bits).bit_length() - 1
        bits >>= skip
        run = (~bits & (bits + 1)).bit_length() - 1
        bits >>= run
        first, last = at + skip, at + skip + run - 1
        parts.append(str(first) if run == 1 else f"{first}-{last}")
        at = last + 1
    return ",".join(parts)


def parse_ids(text: str) -> int:
    """Read the kernel's list format; raise ``ValueError`` in the kubelet's words."""
    if len(text) > LONGEST_LIST:
        raise ValueError(f"a list of {len(text):,} characters is too long (at most {LONGEST_LIST:,})")
    bits = 0
    for part in text.split(",") if text else ():
        first_text, dash, last_text = part.partition("-")
        first = parse_int(first_text)
        last = parse_int(last_text) if dash else first
        if first > last:
            raise ValueError(f"invalid range {quote(part)} ({first} > {last})")
        if first < 0 or last > LARGEST_ID:
            raise ValueError(f"id {last if last > LARGEST_ID else first} is out of range (0 to {LARGEST_ID})")
        bits |= (1 << (last + 1)) - (1 << first)
    return bits


@dataclass(frozen=True, slots=True)
class IdSet:
    """A set of small ids as one int."""

    bits: int = 0

    @classmethod
    def of(cls, *ids: int) -> Self:
        """Make a set of the given ids."""
        return cls(bits_of(ids))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the kernel's list format, such as ``0-3,8``."""
        return cls(parse_ids(text))

    def __str__(self) -> str:
        return format_ids(self.bits)

    def __iter__(self) -> Iterator[int]:
        return ids_of(self.bits)

    def __len__(self) -> int:
        return self.bits.bit_count()

    def __contains__(self, i: int) -> bool:
        return i >= 0 and bool(self.bits >> i & 1)

    def __and__(self, other: Self) -> Self:
        return type(self)(self.bits & other.bits)

    def __or__(self, other: Self) -> Self:
        return type(self)(self.bits | other.bits)

    def __sub__(self, other: Self) -> Self:
        return type(self)(self.bits & ~other.bits)

    def __le__(self, other: Self) -> bool:
        return not self.bits & ~other.bits


class CpuSet(IdSet):
    """Logical CPUs, by the system's number."""

    __slots__ = ()


class NumaSet(IdSet):
    """NUMA nodes, by the system's number."""

    __slots__ = ()
