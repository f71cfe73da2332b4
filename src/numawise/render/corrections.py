"""Corrections for people: what was changed, line by line, and as a diff."""

import difflib
from collections.abc import Iterable, Sequence
from itertools import groupby

from numawise.render.words import clean, counted
from numawise.results.correction import AppliedCorrection, CorrectedFile

INDENT = "  "


def corrections_text(applied: Sequence[AppliedCorrection], files: int, *, dry_run: bool = False) -> str:
    """What was changed, by file; the lines are those before."""
    if not applied:
        return "nothing was corrected: no correction is certain\n"
    lines: list[str] = []
    width = max(len(str(one.line or "")) for one in applied)
    ordered = sorted(applied, key=lambda one: (one.file, one.line or 0))
    for file, group in groupby(ordered, key=lambda one: one.file):
        lines.append(clean(file))
        lines += [f"{INDENT}{one.line or '':>{width}}  {one.code}  {clean(one.title)}" for one in group]
    verb = "would be made" if dry_run else "made"
    lines.append(f"{counted(len(applied), 'correction')} {verb} in {counted(files, 'file')}")
    return "\n".join(lines) + "\n"


def diff_text(files: Iterable[CorrectedFile]) -> str:
    """The changes as a unified diff that ``patch -p1`` applies."""
    return "".join(_diff(one) for one in files)


def _diff(one: CorrectedFile) -> str:
    name = one.file.lstrip("/")
    before, after = one.before.splitlines(keepends=True), one.text.splitlines(keepends=True)
    rows = difflib.unified_diff(before, after, f"a/{name}", f"b/{name}")
    return "".join(row if row.endswith("\n") else f"{row}\n\\ No newline at end of file\n" for row in rows)
