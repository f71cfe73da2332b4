"""Turns among namespaces: what one of them adds does not put off what is done for another.

Whoever owns a namespace decides how many pods it has, and what they say of themselves.  So no list of pods is
worked through in an order that its authors choose: of each namespace one, then the next of each.
"""

import queue
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

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


class WaitingLines(Generic[T]):
    """What came, from other threads, and waits to be looked at: of each namespace so much in a turn."""

    def __init__(self, namespace_of: Callable[[T], str]) -> None:
        self._namespace_of = namespace_of
        self._came: queue.SimpleQueue[T] = queue.SimpleQueue()
        self._lines: dict[str, deque[T]] = {}
        self._taken: dict[str, int] = {}

    def add(self, item: T) -> None:
        """It comes."""
        self._came.put(item)

    def begin_turn(self) -> None:
        """Every namespace may take its steps again."""
        self._taken.clear()

    def clear(self) -> None:
        """Nobody looks at what came so far."""
        self._sort()
        self._lines.clear()

    def take(self) -> Iterator[T]:
        """What may be looked at in this turn."""
        self._sort()
        yield from in_turns([self._line(namespace) for namespace in list(self._lines)])

    def _sort(self) -> None:
        for _ in range(self._came.qsize()):
            item = self._came.get_nowait()
            self._lines.setdefault(self._namespace_of(item), deque()).append(item)

    def _line(self, namespace: str) -> Iterator[T]:
        line = self._lines[namespace]
        while line and self._taken.get(namespace, 0) < MOST_STEPS:
            self._taken[namespace] = self._taken.get(namespace, 0) + 1
            yield line.popleft()
        if not line:
            self._lines.pop(namespace, None)
