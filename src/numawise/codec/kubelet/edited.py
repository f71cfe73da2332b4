"""Settings of a kubelet changed in the text of its configuration: comments, order and layout stay.

Rules kept here:

1. A change sets one setting or takes it out; a mapping that has nothing left goes with its last member.
2. Of a setting that has members, only those that differ are changed.
3. After each change the text is read again.  Where it cannot be changed in place, or would then say anything
   else than was wanted, it is written anew as a whole, and that is said: comments are lost.
4. A configuration that is a text inside an object, as in a ConfigMap, is changed there and nowhere else.
5. An empty text becomes a KubeletConfiguration.
"""

from collections.abc import Iterator, Mapping, Sequence
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
    """It was written anew: comments are lost (rule 3)."""


def edited(text: str, changes: Sequence[tuple[Steps, object]]) -> EditedText:
    """Make changes one after the other; None as a value takes the setting out."""
    rewritten = False
    text = text if text.strip() else EMPTY
    for steps, value in changes:
        text, anew = _changed(text, steps, value)
        rewritten = rewritten or anew
    return EditedText(text, rewritten)


def _changed(text: str, steps: Steps, value: object) -> tuple[str, bool]:
    found = _configuration(text)
    wanted = _with(found.inner.value, (*found.part.steps, *steps), value)
    if wanted == found.inner.value:
        return text, False
    new = text
    for way, member in _differences(found.inner.value, wanted):
        root = _configuration(new).inner.root
        edits = remove(root, way) if member is GONE else set_value(root, way, member)
        if not edits:
            return found.anew(wanted), True
        new = corrected(new, edits)
        if not found.only(new):
            return found.anew(wanted), True
    return (new, False) if _configuration(new).inner.value == wanted else (found.anew(wanted), True)


GONE = object()


def _differences(old: Any, new: Any, steps: Steps = ()) -> Iterator[tuple[Steps, object]]:  # noqa: ANN401 - likewise
    """The single members that differ, ``GONE`` for one that goes; one after the other makes the new value."""
    if old == new:
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping) and old and new:
        for key in old:
            if key in new:
                yield from _differences(old[key], new[key], (*steps, key))
        yield from (((*steps, key), new[key]) for key in new if key not in old)
        yield from (((*steps, key), GONE) for key in old if key not in new)
    elif isinstance(old, list) and isinstance(new, list) and old and new:
        kept = _kept(old, new)
        yield from (((*steps, at), GONE) for at in reversed(range(len(old))) if at not in kept)
        for at, number in enumerate(kept):
            yield from _differences(old[number], new[at], (*steps, at))
        yield from (((*steps, at), new[at]) for at in range(len(kept), len(new)))
    else:
        yield steps, new


def _kept(old: list[Any], new: list[Any]) -> list[int]:
    """Which members of a list become the first of the new one: those that are in both, or else the first."""
    found: list[int] = []
    for member in new:
        at = next((at for at in range(found[-1] + 1 if found else 0, len(old)) if old[at] == member), None)
        if at is None:
            return list(range(min(len(old), len(new))))
        found.append(at)
    return found


@dataclass(frozen=True, slots=True)
class _Configuration:
    """A configuration, and the document that it is in: the whole text, or a text inside of that."""

    outer: Document
    part: Part

    @property
    def inner(self) -> Document:
        return self.part.document

    def only(self, text: str) -> bool:
        """Whether another text differs in nothing but in the document with the configuration."""
        try:
            other = _configuration(text)
        except InputError:
            return False
        if self.inner is self.outer:
            return other.inner is other.outer
        place = self.place()
        return (
            place is not None
            and _with(self.outer.value, place, other.outer.root.at(*place).value) == other.outer.value
        )

    def anew(self, wanted: object) -> str:
        """The whole text written with another configuration."""
        if self.inner is self.outer:
            return manifest_yaml(wanted)
        place = self.place()
        if place is None:
            raise InputError(
                "has its configuration packed inside, where it cannot be changed",
                file=FILE,
                advice="give the configuration alone, or change it in its text",
            )
        return manifest_yaml(_with(self.outer.value, place, manifest_yaml(wanted)))

    def place(self) -> Steps | None:
        """Where its text stands in the outer document; None: it is packed there, or stands there twice."""
        places = [steps for steps, text in _texts(self.outer.value) if _reads_as(text, self.inner.value)]
        return places[0] if len(places) == 1 else None


def _texts(value: object, steps: Steps = ()) -> Iterator[tuple[Steps, str]]:
    """All texts of several lines inside a value."""
    if isinstance(value, str):
        if "\n" in value:
            yield steps, value
        return
    members = (
        value.items() if isinstance(value, Mapping) else enumerate(value if isinstance(value, list) else ())
    )
    for step, member in members:
        yield from _texts(member, (*steps, step))


def _reads_as(text: str, value: object) -> bool:
    try:
        documents = read_documents(text, FILE)
    except InputError:
        return False
    return len(documents) == 1 and documents[0].value == value


def _configuration(text: str) -> _Configuration:
    documents = read_documents(text, FILE)
    for document in documents:
        forms = [one for one in kubelet_configurations(document) if one.part is not None]
        if len(documents) == 1 and len(forms) == 1 and forms[0].part is not None:
            return _Configuration(document, forms[0].part)
    if len(documents) == 1 and isinstance(documents[0].value, Mapping) and "kind" not in documents[0].value:
        return _Configuration(documents[0], documents[0].root)
    raise InputError(
        "is not one kubelet configuration",
        file=FILE,
        advice="change it in its text, or begin with an empty one",
    )


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
