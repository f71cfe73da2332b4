"""Go's print of values, as far as the checksums of state files need it."""

from collections.abc import Iterable, Mapping
from typing import Any


def fnv1a(data: str) -> int:
    """FNV-1a of 32 bits."""
    value = 2166136261
    for byte in data.encode():
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return value


def map_print(entries: Iterable[str] | None) -> str:
    """A map of printed entries; None is no map."""
    return "<nil>" if entries is None else f"map[{' '.join(entries)}]"


def ids_print(ids: Iterable[object]) -> str:
    """A list."""
    return f"[{' '.join(map(str, ids))}]"


def by_bytes(mapping: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The items of a map by the bytes of their keys."""
    return sorted(mapping.items(), key=lambda item: item[0].encode())


def nested_print(entries: Mapping[str, Any] | None) -> str:
    """``map[pod:map[container:cpus …] …]``, or flat where the values are texts."""
    if entries is None:
        return "<nil>"
    return map_print(
        f"{key}:{value if isinstance(value, str) else nested_print(value)}"
        for key, value in by_bytes(entries)
    )
