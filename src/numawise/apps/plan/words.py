"""Amounts that a person gives on the command line."""

from collections.abc import Sequence

from numawise.errors import InputError
from numawise.quantity import Quantity, parse_size


def pages_given(texts: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Huge pages such as ``1Gi=16``: canonical size and number."""
    found: dict[str, int] = {}
    for text in texts:
        size, _, count = text.partition("=")
        if not count.isascii() or not count.isdecimal() or not int(count):
            raise InputError(
                f"{text!r} is not a page size and a number of pages",
                field="--hugepages",
                advice="write it like 1Gi=16",
            )
        found[str(Quantity.of(parse_size(size, "--hugepages")))] = int(count)
    return tuple(found.items())
