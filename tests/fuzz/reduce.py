"""A finding made small: files left out, then lines, then bytes, as long as the same thing goes wrong."""

import contextlib
from collections.abc import Callable

from tests.fuzz.case import Case
from tests.fuzz.sandbox import Finding, Sandbox

MOST_RUNS, SLOW_RUNS = 600, {"TooLong": 30, "MemoryError": 60, "Waits": 2}


class Spent(Exception):
    """There were enough runs."""


def reduced(case: Case, sandbox: Sandbox, finding: Finding, *, acts: bool = False) -> Case:
    """The smallest case that was found to do the same."""
    left = SLOW_RUNS.get(finding.what.partition(" ")[0], MOST_RUNS)
    smallest = case

    def same(smaller: Case) -> bool:
        nonlocal left, smallest
        if left <= 0:
            raise Spent
        left -= 1
        again = sandbox.run(smaller, acts=acts)
        if again is None or again.what != finding.what:
            return False
        smallest = smaller
        return True

    with contextlib.suppress(Spent):
        if same(case):  # otherwise it hangs on what was run before, or on chance
            _reduce(case, same)
    return smallest


def _reduce(case: Case, same: Callable[[Case], bool]) -> None:
    files, words = dict(case.files), case.words
    for name in list(files):
        without = {other: content for other, content in files.items() if other != name}
        if same(Case(words, without)):
            files = without
    for at in range(len(words) - 1, 0, -1):
        if same(Case(shorter := (*words[:at], *words[at + 1 :]), files)):
            words = shorter
    for name in sorted(files, key=lambda name: len(files[name])):

        def fits(parts: list[bytes], name: str = name) -> bool:
            return same(Case(words, {**files, name: b"".join(parts)}))

        lines = _without(files[name].splitlines(keepends=True), fits)
        files[name] = b"".join(_without([bytes([value]) for value in b"".join(lines)], fits))


def _without(parts: list[bytes], fits: Callable[[list[bytes]], bool]) -> list[bytes]:
    """Leave out ever smaller runs of parts."""
    size = max(len(parts) // 2, 1)
    while parts:
        at = 0
        while at < len(parts):
            shorter = parts[:at] + parts[at + size :]
            if fits(shorter):
                parts = shorter
            else:
                at += size
        if size == 1:
            return parts
        size //= 2
    return parts
