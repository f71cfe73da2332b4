"""What was said last of every node about a shape: only nodes that changed are asked again.

Rules kept here:

1. An answer holds until its node changes, or until other shapes count, by which all are rated.
2. Changes are written down one after the other.  Who asks about a shape looks at those since it was last
   asked for; after too many of them, everything is worked out again.
3. The answers of the ``MOST_SHAPES`` shapes asked for last are kept.
"""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from numawise.cluster.asking import Shape
from numawise.values import dataclass, field

MOST_SHAPES, MOST_CHANGES, MOST_NAMES = 16, 20_000, 100_000
Answer = TypeVar("Answer")


@dataclass(slots=True)
class SaidOfShape(Generic[Answer]):
    """The answers about one shape."""

    basis: object
    """By what they are rated (rule 1)."""
    seen: int
    """Changes that were seen."""
    by_node: dict[str, Answer] = field(default_factory=dict)


class LastSaid(Generic[Answer]):
    """The answers about all shapes."""

    def __init__(self) -> None:
        self._shapes: dict[Shape, SaidOfShape[Answer]] = {}
        self._changes: list[str] = []
        self._before = 0
        """Changes that are no longer written down."""

    def changed(self, name: str) -> None:
        """A node is not what it was."""
        if len(self._changes) >= MOST_CHANGES:
            self._before += len(self._changes)
            self._changes.clear()
        self._changes.append(name)

    def of(
        self, key: Shape, basis: object, names: Sequence[str], answer: Callable[[str], Answer]
    ) -> list[Answer]:
        """The answers of nodes, in the order of their names; ``answer``: works one out."""
        by_node = self._current(key, basis).by_node
        try:
            return list(map(by_node.__getitem__, names))
        except KeyError:
            if len(by_node) > MOST_NAMES:  # names that nobody has, asked for again and again
                by_node.clear()
            for name in names:
                if name not in by_node:
                    by_node[name] = answer(name)
            return list(map(by_node.__getitem__, names))

    def _current(self, key: Shape, basis: object) -> SaidOfShape[Answer]:
        now = self._before + len(self._changes)
        said = self._shapes.pop(key, None)
        if said is None and len(self._shapes) >= MOST_SHAPES:
            del self._shapes[next(iter(self._shapes))]
        if said is None or said.basis is not basis or said.seen < self._before:
            said = SaidOfShape(basis, now)
        for name in self._changes[said.seen - self._before :] if said.seen < now else ():
            said.by_node.pop(name, None)
        said.seen = now
        self._shapes[key] = said
        return said
