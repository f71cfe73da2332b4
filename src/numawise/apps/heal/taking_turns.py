"""Turns among namespaces: what one of them adds does not put off what is done for another.

Whoever owns a namespace decides how many pods it has, and what they say of themselves.  So no list of pods is
worked through in an order that its authors choose: of each namespace one, then the next of each.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")
MOST_STEPS = 20
"""Of one namespace in a turn of the healer."""


def by_namespace(items: Iterable[T], namespace_of: Callable[[T], str]) -> list[list[T]]:
    """The items of each namespace, in their order."""
    lanes: dict[str, list[T]] = {}
    for item in items:
        lanes.setdefault(namespace_of(item), []).append(item)
    return list(lanes.values())


def in_turns(lanes: Iterable[Iterable[T]]) -> Iterator[T]:
    """One item of each lane, then the next of each, until all have ended."""
    waiting = deque(iter(lane) for lane in lanes)
    while waiting:
        lane = waiting.popleft()
        for item in lane:
            waiting.append(lane)
            yield item
            break
