"""Turns among namespaces: what one of them adds does not put off what is done for another.

Whoever owns a namespace decides how many pods it has, and what they say of themselves.  So no list of pods is
worked through in an order that its authors choose: of each namespace one, then the next of each.
"""

import sys
import threading
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

    def __init__(self, namespace_of: Callable[[T], str], most: int = sys.maxsize) -> None:
        self._namespace_of, self._most = namespace_of, most
        self._lock = threading.Lock()
        self._lines: dict[str, deque[T]] = {}
        """The namespace that was looked at longest ago comes first."""
        self._taken: dict[str, int] = {}

    def __bool__(self) -> bool:
        """Whether something waits."""
        return bool(self._lines)

    def add(self, item: T) -> bool:
        """It comes, and waits where no more than ``most`` of its namespace do."""
        with self._lock:
            line = self._lines.setdefault(self._namespace_of(item), deque())
            if len(line) < self._most:
                line.append(item)
                return True
            return False

    def begin_turn(self) -> None:
        """Every namespace may take its steps again."""
        with self._lock:
            self._taken.clear()

    def clear(self) -> None:
        """Nobody looks at what came so far."""
        with self._lock:
            self._lines.clear()

    def take(self) -> Iterator[T]:
        """What may be looked at in this turn."""
        while True:
            with self._lock:
                may = (name for name in self._lines if self._taken.get(name, 0) < MOST_STEPS)
                namespace = next(may, None)
                if namespace is None:
                    return
                self._taken[namespace] = self._taken.get(namespace, 0) + 1
                line = self._lines.pop(namespace)
                item = line.popleft()
                if line:
                    self._lines[namespace] = line
            yield item
