"""A claim as somebody wrote it, with one constraint more.

Rules kept here:

1. The text and its comments stay.  Where the constraint cannot be put into the text (the claim stands in a
   list, has an alias there), the object is written again with all its values.
2. Nothing is left out but what the API server writes by itself, and a comment names that.
3. What comes out was read back: it is the claim with the constraint, and nothing else.
"""

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from numawise.codec.document import Document, Part, read_documents
from numawise.codec.edits import Edits, set_value
from numawise.codec.output import manifest_yaml
from numawise.errors import InputError
from numawise.results.correction import corrected

ATTRIBUTE = "attribute.numawise.invalid/numa"
"""Stands for the attribute, which the release and the drivers decide."""
MOST_CONSTRAINTS = 32
WRITTEN_BY_SERVER = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink")
APART = re.compile(r"(?m)^---[ \t]*(?:#.*)?\r?\n")


def with_constraint(part: Part, way: Sequence[str]) -> tuple[str, str]:
    """The text of a claim with a constraint on ``ATTRIBUTE`` more; else '' and why there is none.

    ``way``: where its constraints are.
    """
    if not part.at(*way[:-1]).value:
        return "", "it requests no devices"
    wanted: Any = deepcopy(part.value)
    around = wanted
    for step in way[:-1]:
        around = around[step]
    constraints = around.get(way[-1]) or []
    if len(constraints) >= MOST_CONSTRAINTS:
        return "", f"it has {len(constraints)} constraints, and the API server takes no more"
    around[way[-1]] = [*constraints, {"matchAttribute": ATTRIBUTE}]
    left_out = _left_out(wanted)
    if not left_out and not part.steps:
        added = {"matchAttribute": ATTRIBUTE}
        edits = set_value(part, tuple(way), [added])
        if constraints:
            edits = set_value(part, (*way, len(constraints)), added)
        text = _edited(part.document, edits)
        if text and _reads_as(text, wanted):
            return text, ""
    named = f"# Left out, as the API server writes it by itself: {', '.join(left_out)}.\n" if left_out else ""
    return named + manifest_yaml(wanted), ""


def _left_out(wanted: dict[str, Any]) -> list[str]:
    """Take out what the API server writes by itself; its names (rule 2)."""
    metadata = wanted.get("metadata")
    names = []
    if isinstance(metadata, dict):
        names = [f"metadata.{key}" for key in WRITTEN_BY_SERVER if metadata.pop(key, None) is not None]
    return names + (["status"] if wanted.pop("status", None) is not None else [])


def _edited(document: Document, edits: Edits) -> str:
    """The text of one document after the edits; '' where that is not to be had."""
    if not edits:
        return ""
    text = corrected(document.text, edits)
    pieces = [one for one in APART.split(text) if one.strip()]
    return pieces[document.index] if document.index < len(pieces) else ""


def _reads_as(text: str, wanted: Mapping[str, Any]) -> bool:
    try:
        found = read_documents(text, "")
    except InputError:
        return False
    return [one.value for one in found] == [wanted]
