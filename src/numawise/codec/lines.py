"""On which line each value of a text stands: an index that is made once and asked by everybody.

Rules kept here:

1. Every value of the text is one entry, in the order of the text; what belongs to a collection follows it, up
   to its ``ends``.  So an index costs 16 bytes for each value, and no objects.
2. A value that has a key stands on the line of its key.  Of keys that appear twice the first counts.
3. Children are looked up in a table for each collection that lies on the way to something asked for, made at
   the first question.  Questions therefore cost their depth, however long the text is.
"""

import json
import re
from array import array
from collections.abc import Callable, Mapping

Steps = tuple[str | int, ...]
LineOf = Callable[[Steps], int | None]

STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
VALUE = re.compile(rf'(?:({STRING})\s*+:\s*+)?+(?:([{{\[])|{STRING}|[^\s{{}}\[\],:"]++)|([}}\]])', re.DOTALL)
OPEN, CLOSE = 2, 3  # groups of it; the first is the key


class LineIndex:
    """The lines of all values of one text; ``add`` and ``close`` make it, in the order of the text."""

    __slots__ = ("ends", "keys", "lines", "roots", "tables")

    def __init__(self) -> None:
        self.lines, self.ends = array("I"), array("I")
        self.keys: list[str | None] = []
        self.roots: list[int] = []
        self.tables: dict[int, dict[str | int, int]] = {}

    def add(self, line: int, key: str | None = None) -> int:
        """The next value of the text; returns its entry, which is to be closed when it is a collection."""
        entry = len(self.lines)
        self.lines.append(line)
        self.ends.append(entry + 1)
        self.keys.append(key)
        return entry

    def close(self, entry: int) -> None:
        """A collection ends here."""
        self.ends[entry] = len(self.lines)

    def line(self, document: int, steps: Steps) -> int | None:
        """Line of what the steps lead to in the document of that number, or of the nearest around it."""
        if document >= len(self.roots):
            return None
        entry = self.roots[document]
        for step in steps:
            if self.ends[entry] == entry + 1:
                break
            table = self.tables.get(entry)
            inner = (self._table(entry) if table is None else table).get(step)
            if inner is None:
                break
            entry = inner
        return self.lines[entry]

    def _table(self, entry: int) -> dict[str | int, int]:
        table: dict[str | int, int] = {}
        inner, number = entry + 1, 0
        while inner < self.ends[entry]:
            key = self.keys[inner]
            table.setdefault(number if key is None else key, inner)
            inner, number = self.ends[inner], number + 1
        self.tables[entry] = table
        return table


def json_lines(text: str) -> LineIndex:
    """The index of a JSON text that was read without complaint."""
    index = LineIndex()
    opened: list[int] = []
    line, counted = 1, 0
    for piece in VALUE.finditer(text):
        kind = piece.lastindex
        if kind == CLOSE:
            index.close(opened.pop())
            continue
        line, counted = line + text.count("\n", counted, piece.start()), piece.start()
        key = piece[1]
        if key is not None:
            key = json.loads(key) if "\\" in key else key[1:-1]
        elif not opened:
            index.roots.append(len(index.lines))
        entry = index.add(line, key)
        if kind == OPEN:
            opened.append(entry)
    return index


def line_index(value: object, line_of: LineOf) -> LineIndex:
    """The lines of all values in a value; one that has none stands where what is around it does."""
    index = LineIndex()

    def add(inner: object, steps: Steps, line: int, key: str | None) -> None:
        line = line_of(steps) or line
        entry = index.add(line, key)
        if isinstance(inner, Mapping):
            for name, one in inner.items():
                add(one, (*steps, name), line, name)
        elif isinstance(inner, list | tuple):
            for at, one in enumerate(inner):
                add(one, (*steps, at), line, None)
        index.close(entry)

    index.roots.append(0)
    add(value, (), line_of(()) or 1, None)
    return index
