"""How an explanation words amounts, NUMA nodes and who has how much."""

from collections.abc import Iterable, Sequence

from numawise.render.words import bytes_text, counted
from numawise.request.model import CPU, MEMORY
from numawise.results.explanation import BYTES, CPUS, Place, Wish
from numawise.sets import format_ids

UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("bytes", 1))
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight")
MOST_ROOMS = 4
"""NUMA nodes that have different amounts; of more, the richest alone is told."""


def title(resource: str) -> str:
    """A resource inside a sentence."""
    return "CPU" if resource == CPU else resource


def titles(resources: Iterable[str]) -> str:
    """Resources inside a sentence."""
    return both([title(resource) for resource in resources])


def both(words: Sequence[str], last: str = "and") -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}" if words else ""


def number(count: int) -> str:
    """A small number as a word."""
    return NUMBERS[count] if 0 <= count < len(NUMBERS) else str(count)


def numa_text(mask: int) -> str:
    """``NUMA 0-1``."""
    return f"NUMA {format_ids(mask)}"


def nodes_text(count: int) -> str:
    """``one NUMA node``, ``two NUMA nodes``."""
    return f"{number(count)} NUMA {'node' if count == 1 else 'nodes'}"


def amount(unit: str, size: int, beside: int | None = None) -> str:
    """So much of something; ``beside``: another amount that must not look the same."""
    if unit != BYTES:
        return str(size)
    shown = bytes_text(size)
    if beside is None or beside == size or shown != bytes_text(beside):
        return shown
    for name, per in UNITS[1:]:
        shown, other = (f"{one / per:,.1f}".removesuffix(".0") for one in (size, beside))
        if shown != other:
            return f"{shown} {name}"
    return f"{size:,} bytes"


def asked_text(wish: Wish) -> str:
    """``8 CPUs are asked for``."""
    return asked(wish.resource, wish.unit, wish.asked or 0)


def asked(resource: str, unit: str, size: int) -> str:
    """``8 CPUs are asked for``, ``120 GiB is asked for``."""
    if unit == CPUS:
        return f"{counted(size, 'CPU')} {'is' if size == 1 else 'are'} asked for"
    if unit == BYTES:
        what = "" if resource == MEMORY else " of huge pages"
        return f"{amount(BYTES, size)}{what} is asked for"
    return f"{size} {'is' if size == 1 else 'are'} asked for"


def free_text(unit: str, free: int, wanted: int) -> str:
    """``6 are free``, ``none is free``."""
    if not free:
        return "none is free"
    are = "is" if free == 1 or unit == BYTES else "are"
    return f"{amount(unit, free, wanted)} {are} free"


def rooms_text(unit: str, places: Sequence[Place], wanted: int) -> str:
    """Who has how much: ``NUMA 0 has 6 free and NUMA 1 has 4``."""
    by_room: dict[tuple[int, str], int] = {}
    for place in sorted((p for p in places if p.free is not None), key=lambda p: (-(p.free or 0), p.numa)):
        key = (place.free or 0, place.note)
        by_room[key] = by_room.get(key, 0) | 1 << place.numa
    rooms = list(by_room.items())
    if not rooms:
        return ""
    if len(rooms) <= MOST_ROOMS:
        rooms.sort(key=lambda room: room[1] & -room[1])
    if len(rooms) > MOST_ROOMS:
        ((most, note), nodes), *_ = rooms
        has = f"{numa_text(nodes)} {'has' if nodes.bit_count() == 1 else 'have'} the most free"
        return f"{has}, {amount(unit, most, wanted)}{f' ({note})' if note else ''}"
    parts = []
    for at, ((free, note), nodes) in enumerate(rooms):
        one = nodes.bit_count() == 1
        size = amount(unit, free, wanted) if free else "none"
        word = f"{'has' if one else 'have'} {size}"
        each = "" if one or not free else " each"
        parts.append(
            f"{numa_text(nodes)} {word}{' free' if at == 0 else ''}{each}{f' ({note})' if note else ''}"
        )
    return both(parts)


def shortage_text(wish: Wish) -> str:
    """What the nearest NUMA node lacks: ``NUMA 0 lacks 2``; '' when none is short or nothing is known."""
    known = [place for place in wish.places if place.free is not None and not place.note]
    if wish.asked is None or not known or any((place.free or 0) >= wish.asked for place in wish.places):
        return ""
    nearest = max(known, key=lambda place: (place.free or 0, -place.numa))
    lacking = wish.asked - (nearest.free or 0)
    return f"{amount(wish.unit, lacking)} short" if lacking > 0 else ""
