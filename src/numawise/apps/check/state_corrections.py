"""How what is found in state files is mended: by what ``numawise state repair`` does, and by nothing else.

Rules kept here:

1. A repair is offered where it can be done in full; what it would leave wrong in the file keeps it from being
   certain, and so does a pod that would lose something.
2. A file that is not just the state (pasted from a terminal, a member of a bundle) is not changed.
"""

from collections.abc import Sequence

from numawise.codec.infile import read_raw
from numawise.errors import NumawiseError
from numawise.node.state.change import Change
from numawise.node.state.folder import Against, StateFolder
from numawise.node.state.repair import repair
from numawise.node.state.repair_request import ADAPT_CPUS, ADAPT_MEMORY, CHECKSUM, COUNT_AGAIN, RepairRequest
from numawise.results.correction import Correction, whole_edit
from numawise.results.finding import Finding
from numawise.values import replace

REPAIRS = {
    "NW302": CHECKSUM,
    "NW304": CHECKSUM,
    "NW305": ADAPT_CPUS,
    "NW310": ADAPT_MEMORY,
    "NW312": RepairRequest(remove_stale=True),
    "NW317": ADAPT_CPUS,
    "NW318": COUNT_AGAIN,
}
CHOSEN = frozenset({"NW305", "NW312", "NW317"})
"""Codes with another way out, which the sentence names: CPUs that come back, a kubelet that looks again."""


def repairable(findings: Sequence[Finding], folder: StateFolder, against: Against) -> list[Finding]:
    """The findings with the repairs that mend them."""
    made: dict[str, Correction | None] = {}
    for code in {one.code for one in findings} & set(REPAIRS):
        try:
            change = repair(folder, REPAIRS[code], against)
        except NumawiseError:
            continue
        made[code] = _correction(change, certain=code not in CHOSEN)
    return [_with(one, made.get(one.code)) for one in findings]


def _with(finding: Finding, correction: Correction | None) -> Finding:
    if correction is None or finding.file not in {edit.file for edit in correction.edits}:
        return finding
    return replace(finding, corrections=(correction,))


def _correction(change: Change, *, certain: bool) -> Correction | None:
    changed = [one for one in change.files if one.text is not None and one.changes]
    if not changed or change.refused or not all(_is_own(str(one.file.path), one.file.raw) for one in changed):
        return None
    names = {str(one.file.path) for one in changed}
    sure = certain and not any(left.file in names for left in change.left)
    said = "; ".join(sentence for one in changed for sentence in one.said)
    edits = tuple(whole_edit(str(one.file.path), one.file.text, one.text or "") for one in changed)
    return Correction(f"repair: {said}", edits, sure)


def _is_own(path: str, raw: bytes) -> bool:
    """Whether a file holds just this (rule 2)."""
    try:
        return read_raw(path)[0] == raw
    except NumawiseError:
        return False
