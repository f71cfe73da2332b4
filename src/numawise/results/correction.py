"""Corrections: what to change in a file so that a finding is gone, as data that a program can apply.

Rules kept here:

1. Lines end at a line feed and count from 1; columns count characters from 1.  An edit replaces what stands
   from its start up to, and without, its end.
2. Edits say what to do with the text that was checked, all of them; none refers to what another one makes.
3. A correction is *certain* where only one change can be meant.  Others are ways to choose from, and nobody
   applies them unasked.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate

from numawise.values import dataclass


@dataclass(frozen=True, slots=True)
class TextEdit:
    """One change of a file's text: lines and columns count from 1, the end is not part of it."""

    file: str
    start_line: int
    start_column: int
    end_line: int
    end_column: int
    text: str
    """What stands there afterwards."""

    @property
    def start(self) -> tuple[int, int]:
        """Line and column of the first character that is replaced."""
        return self.start_line, self.start_column

    @property
    def end(self) -> tuple[int, int]:
        """Line and column behind the last one."""
        return self.end_line, self.end_column


@dataclass(frozen=True, slots=True)
class Correction:
    """A way to mend what a finding is about."""

    title: str
    """What is done, in a few words."""
    edits: tuple[TextEdit, ...]
    certain: bool = True
    """False: a value, or one of several ways, that somebody has to choose; never applied unasked."""


def edit_of(file: str, text: str, start: int, end: int, new: str) -> TextEdit:
    """The edit that replaces the characters from ``start`` to ``end`` of a text."""
    return TextEdit(file, *_place(text, start), *_place(text, end), new)


def _place(text: str, at: int) -> tuple[int, int]:
    begins = _begins(text)
    line = bisect_right(begins, at, hi=len(begins) - 1)
    return line, at - begins[line - 1] + 1


@lru_cache(maxsize=8)
def _begins(text: str) -> tuple[int, ...]:
    """Where each line begins, and where one behind the last would."""
    return (0, *accumulate(len(line) + 1 for line in text.split("\n")))


def whole_edit(file: str, text: str, new: str) -> TextEdit:
    """The edit that replaces a text as a whole."""
    return edit_of(file, text, 0, len(text), new)


def corrected(text: str, edits: Iterable[TextEdit]) -> str:
    """A text after some edits; ``ValueError`` where two overlap or one is outside of it."""
    begins = _begins(text)

    def index(line: int, column: int) -> int:
        if not 0 < line < len(begins) or not 0 < column <= begins[line] - begins[line - 1]:
            raise ValueError(f"line {line}, column {column} is outside of the text")
        return begins[line - 1] + column - 1

    pieces: list[str] = []
    done = 0
    for one in sorted(dict.fromkeys(edits), key=lambda edit: (edit.start, edit.end)):
        start, end = index(*one.start), index(*one.end)
        if start < done or end < start:
            raise ValueError(f"two edits overlap at line {one.start_line}")
        pieces += [text[done:start], one.text]
        done = end
    return "".join([*pieces, text[done:]])


def apart(corrections: Sequence[Correction]) -> tuple[int, ...]:
    """The numbers of those that can be applied together: none touches what an earlier one changes.

    The same edit may belong to several; two that only touch are kept apart as well, because the second may be
    another one after the first (the last entry of a mapping goes with the mapping).
    """
    taken: dict[str, list[TextEdit]] = {}
    chosen: list[int] = []
    for number, correction in enumerate(corrections):
        if all(_free(one, taken.get(one.file, [])) for one in correction.edits):
            chosen.append(number)
            for one in correction.edits:
                edits = taken.setdefault(one.file, [])
                if one not in edits:
                    edits.insert(bisect_right(edits, one.start, key=lambda edit: edit.start), one)
    return tuple(chosen)


def _free(edit: TextEdit, taken: Sequence[TextEdit]) -> bool:
    at = bisect_right(taken, edit.start, key=lambda one: one.start)
    around = taken[max(0, at - 1) : at + 1]
    return all(one == edit or one.end < edit.start or edit.end < one.start for one in around)


@dataclass(frozen=True, slots=True)
class AppliedCorrection:
    """A correction that was applied, and to what."""

    code: str
    file: str
    line: int | None
    title: str


@dataclass(frozen=True, slots=True)
class CorrectedFile:
    """A file before and after its corrections."""

    file: str
    before: str
    text: str
