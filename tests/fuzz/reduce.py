"""A finding made small: files left out, then lines, then bytes, as long as the same thing goes wrong."""

from collections.abc import Callable

from tests.fuzz.case import Case
from tests.fuzz.sandbox import Finding, Sandbox

MOST_RUNS, SLOW_RUNS = 600, {"TooLong": 30, "MemoryError": 60, "Waits": 2}


def reduced(case: Case, sandbox: Sandbox, finding: Finding, *, acts: bool = False) -> Case:
    """The smallest case that was found to do the same."""
    left = SLOW_RUNS.get(finding.what.partition(" ")[0], MOST_RUNS)

    def same(files: dict[str, bytes], words: tuple[str, ...] = case.words) -> bool:
        nonlocal left
        if left <= 0:
            return False
        left -= 1
        again = sandbox.run(Case(words, files), acts=acts)
        return again is not None and again.what == finding.what

    files = dict(case.files)
    if not same(files):
        return case  # it hangs on what was run before, or on chance
    for name in list(files):
        without = {other: content for other, content in files.items() if other != name}
        if same(without):
            files = without
    words = case.words
    for at in range(len(words) - 1, 0, -1):
        if same(files, shorter := (*words[:at], *words[at + 1 :])):
            words = shorter
    for name in sorted(files, key=lambda name: len(files[name])):

        def fits(content: bytes, name: str = name) -> bool:
            return same({**files, name: content}, words)

        lines = _without(
            files[name].splitlines(keepends=True), lambda parts, fits=fits: fits(b"".join(parts))
        )
        octets = [bytes([value]) for value in b"".join(lines)]
        files[name] = b"".join(_without(octets, lambda parts, fits=fits: fits(b"".join(parts))))
    return Case(words, files)


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
