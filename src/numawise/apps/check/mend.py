"""Correct what was checked: every certain correction that proves right, applied and checked again.

Rules kept here:

1. Only certain corrections are applied, and only to files that are there to be written.
2. Every step is proved by another check of all that was given: what was mended is gone, and there are not
   more errors than before, nor, with as many errors, more warnings.  What fails this is not applied.
3. Corrections that touch each other's text are applied one after the other, each to the result of the last.
4. No file is written here: a check reads the corrected texts instead.
"""

import math
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from numawise.codec.infile import is_file, read_instead, read_raw
from numawise.results.correction import AppliedCorrection, CorrectedFile, Correction, apart, corrected
from numawise.results.finding import CheckReport, Finding
from numawise.values import dataclass

MOST_ROUNDS = 200
BOM = "\ufeff"
INDEX = re.compile(r"\[\d+\]")
Check = Callable[[], CheckReport]
Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class CorrectedCheck:
    """What was corrected, and what is left."""

    report: CheckReport
    """The check of the files as they are after the corrections."""
    files: tuple[CorrectedFile, ...] = ()
    applied: tuple[AppliedCorrection, ...] = ()


@dataclass(frozen=True, slots=True)
class _State:
    """The files as they would be, and what a check says of them."""

    texts: Mapping[str, str]
    report: CheckReport


def mended(check: Check, report: CheckReport | None = None, patience: float | None = None) -> CorrectedCheck:
    """Apply all certain corrections; ``report``: what the check said, where that is known already.

    ``patience``: seconds after which no further one is tried; what has proved right until then stays.
    """
    end = math.inf if patience is None else time.monotonic() + patience
    state = _State({}, report if report is not None else check())
    before: dict[str, str] = {}
    applied: list[AppliedCorrection] = []
    refused: set[tuple[Finding, Correction]] = set()
    for _ in range(MOST_ROUNDS):
        chosen = _chosen(state.report.findings, refused)
        if not chosen or time.monotonic() > end:
            break
        batch = [chosen[number] for number in apart([way for _, way in chosen])]
        following = _tried(state, batch, before, check)
        while following is None and len(batch) > 1 and time.monotonic() <= end:
            batch = batch[: len(batch) // 2]
            following = _tried(state, batch, before, check)
        if following is None:
            refused |= set(batch)
        else:
            state = following
            applied += [AppliedCorrection(one.code, one.file, one.line, way.title) for one, way in batch]
    files = tuple(
        CorrectedFile(name, before[name], text) for name, text in state.texts.items() if text != before[name]
    )
    return CorrectedCheck(state.report, files, tuple(applied))


def key_of(finding: Finding) -> Key:
    """What makes two findings of two checks the same; entries of lists may have moved."""
    return finding.code, finding.file, INDEX.sub("[]", finding.field)


def _chosen(
    findings: Sequence[Finding], refused: Collection[tuple[Finding, Correction]]
) -> list[tuple[Finding, Correction]]:
    sure = [(one, one.certain) for one in findings if one.certain is not None]
    return [one for one in sure if one not in refused and all(is_file(edit.file) for edit in one[1].edits)]


def _tried(
    state: _State, batch: Sequence[tuple[Finding, Correction]], before: dict[str, str], check: Check
) -> _State | None:
    """The files after some corrections; None where that does not prove right (rule 2)."""
    texts = dict(state.texts)
    edits = [edit for _, way in batch for edit in way.edits]
    for name in dict.fromkeys(edit.file for edit in edits):
        if name not in texts:
            texts[name] = before[name] = read_raw(name)[0].decode("utf-8")
        mark = BOM if texts[name].startswith(BOM) else ""
        own = [edit for edit in edits if edit.file == name]
        try:
            texts[name] = mark + corrected(texts[name].removeprefix(mark), own)
        except ValueError:
            return None
    with read_instead({name: text.encode() for name, text in texts.items()}):
        after = check()
    return _State(texts, after) if _better(state.report, after, batch) else None


def _better(before: CheckReport, after: CheckReport, batch: Sequence[tuple[Finding, Correction]]) -> bool:
    if (after.errors, after.warnings) > (before.errors, before.warnings):
        return False
    had, has = (Counter(map(key_of, report.findings)) for report in (before, after))
    meant = Counter(key_of(finding) for finding, _ in batch)
    return all(has[key] <= had[key] - count for key, count in meant.items())
