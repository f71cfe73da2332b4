"""Settings of a kubelet changed in the text of its configuration: comments, order and layout stay.

Rules kept here:

1. A change sets one setting or takes it out; a mapping that has nothing left goes with its last member.
2. After each change the text is read again.  Where it cannot be changed in place, or would then say anything
   else than was wanted, it is written anew as a whole, and that is said: comments are lost.
3. An empty text becomes a KubeletConfiguration.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from numawise.codec.document import Document, Part, read_documents
from numawise.codec.edits import remove, set_value
from numawise.codec.kubelet.config import API_VERSION, KIND
from numawise.codec.kubelet.forms import kubelet_configurations
from numawise.codec.lines import Steps
from numawise.codec.output import manifest_yaml
from numawise.errors import InputError, quoted
from numawise.results.correction import corrected
from numawise.values import dataclass

EMPTY = f"apiVersion: {API_VERSION}\nkind: {KIND}\n"
FILE = "kubelet.yaml"


@dataclass(frozen=True, slots=True)
class EditedText:
    """A text after changes."""

    text: str
    rewritten: bool = False
    """It was written anew: comments are lost (rule 2)."""


def edited(text: str, changes: Sequence[tuple[Steps, object]]) -> EditedText:
    """Make changes one after the other; None as a value takes the setting out."""
    rewritten = False
    text = text if text.strip() else EMPTY
    for steps, value in changes:
        text, anew = _changed(text, steps, value)
        rewritten = rewritten or anew
    return EditedText(text, rewritten)


def _changed(text: str, steps: Steps, value: object) -> tuple[str, bool]:
    document, part = _configuration(text)
    whole = (*part.steps, *steps)
    wanted = _with(document.value, whole, value)
    if wanted == document.value:
        return text, False
    edits = remove(part, steps) if value is None else set_value(part, steps, value)
    if edits:
        new = corrected(text, edits)
        if _says(new, wanted):
            return new, False
    return manifest_yaml(wanted), True


def _configuration(text: str) -> tuple[Document, Part]:
    documents = read_documents(text, FILE)
    for document in documents:
        forms = [one for one in kubelet_configurations(document) if one.part is not None]
        if len(documents) == 1 and len(forms) == 1 and forms[0].part is not None:
            return document, forms[0].part
    if len(documents) == 1 and isinstance(documents[0].value, Mapping) and "kind" not in documents[0].value:
        return documents[0], documents[0].root
    raise InputError(
        "is not one kubelet configuration",
        file=FILE,
        advice="change it in its text, or begin with an empty one",
    )


def _says(text: str, wanted: object) -> bool:
    try:
        documents = read_documents(text, FILE)
    except InputError:
        return False
    return len(documents) == 1 and documents[0].value == wanted


def _with(value: Any, steps: Steps, new: object) -> Any:  # noqa: ANN401 - as a configuration has it
    """A value with one member changed (rule 1)."""
    result = _copied(value)
    inner = result
    around: list[tuple[Any, Any]] = []
    for step in steps[:-1]:
        _check(inner, step)
        below = inner.get(step) if isinstance(inner, dict) else inner[step]
        if not isinstance(below, dict | list):
            if new is None:
                return result
            below = inner[step] = {}
        around.append((inner, step))
        inner = below
    last = steps[-1]
    _check(inner, last)
    if new is not None:
        inner[last] = new
        return result
    if isinstance(inner, dict):
        inner.pop(last, None)
    while around and not inner:
        inner, step = around.pop()
        del inner[step]
    return result


def _check(inner: object, step: object) -> None:
    """Refuse a name, or a place that is not there, in a list."""
    if isinstance(inner, list) and not (isinstance(step, int) and 0 <= step < len(inner)):
        raise InputError(
            f"{quoted(str(step))} is no member of a list", file=FILE, advice="set the list as a whole"
        )


def _copied(value: Any) -> Any:  # noqa: ANN401 - likewise
    """A copy in which nothing stands twice, whatever aliases the text had."""
    if isinstance(value, Mapping):
        return {key: _copied(member) for key, member in value.items()}
    return [_copied(member) for member in value] if isinstance(value, list) else value
