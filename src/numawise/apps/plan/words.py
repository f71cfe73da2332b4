"""Amounts that a person gives on the command line."""

from collections.abc import Sequence

from numawise.errors import InputError
from numawise.quantity import NANO, Quantity


def bytes_given(text: str, field: str) -> int:
    """A size such as ``32Gi``, in bytes."""
    try:
        amount = Quantity.parse(text.strip())
    except ValueError as problem:
        raise InputError(
            f"{text!r} is no size: {problem}", field=field, advice="write it like 32Gi"
        ) from None
    if amount.nano <= 0 or amount.nano % NANO:
        raise InputError(
            f"{text!r} is no number of bytes above zero", field=field, advice="write it like 32Gi"
        )
    return amount.nano // NANO


def pages_given(texts: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Huge pages such as ``1Gi=16``: canonical size and number."""
    found: dict[str, int] = {}
    for text in texts:
        size, _, count = text.partition("=")
        if not count.isascii() or not count.isdecimal() or not int(count):
            raise InputError(
                f"{text!r} is no size and number of pages", field="--hugepages", advice="write it like 1Gi=16"
            )
        found[str(Quantity.of(bytes_given(size, "--hugepages")))] = int(count)
    return tuple(found.items())
