"""Changes of a YAML or JSON text at one of its values: comments, order and layout around it stay.

Rules kept here:

1. Only what can be done surely is done: where a value is reached through an alias or a merge, stands twice,
   has an anchor or a tag, there is no edit, and the caller has none to offer.
2. A value keeps its quotation marks; a new text gets some where it would mean something else without.
3. An entry goes with its lines and the comment behind it.  Where it was the only one, what is around it goes.
4. A new entry comes last, in the layout of the one before it.
5. A document that is a block of another one is changed there; one that is packed in another way is not.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import yaml

from numawise.codec.document import LOADER, Part
from numawise.codec.lines import Steps
from numawise.patience import look
from numawise.results.correction import Correction, TextEdit, edit_of
from numawise.values import dataclass

PLAIN = re.compile(r"[A-Za-z](?:[\w./-]*\w)?|[0-9]+(?:\.[0-9]+)?[A-Za-z]+")
BRACKET = re.compile(r"\s*[{\[]")
WORDS = re.compile(r"y|yes|n|no|true|false|on|off|null", re.IGNORECASE)
EXPONENT = re.compile(r"[0-9.]+[eE][0-9]*|0[xob].*")
LARGEST = 2 << 20
"""How long a text may be that is looked at once more for its edits."""
Edits = tuple[TextEdit, ...]


def correction(title: str, *edits: Edits, certain: bool = True) -> Correction | None:
    """A correction out of several edits; None where one of them cannot be done."""
    every = sorted((one for some in edits for one in some), key=lambda one: (one.file, one.start, one.end))
    apart = all(a.file != b.file or a.end <= b.start for a, b in pairwise(every))
    return Correction(title, tuple(every), certain) if all(edits) and apart else None


def set_value(part: Part, steps: Steps, value: object) -> Edits:
    """Give what is at ``steps`` another value; what is not there yet is added to the mapping around it."""
    way = _way(part, steps)
    if way is None:
        return ()
    if not way.missing:
        return _outward(part, way.replaced(value))
    for step in reversed(way.missing[1:]):
        if not isinstance(step, str):
            return ()
        value = {step: value}
    return _outward(part, way.added(way.missing[0], value))


def rename_key(part: Part, steps: Steps, name: str) -> Edits:
    """Give an entry of a mapping another key; not where there is one of that name."""
    way = _way(part, steps)
    if way is None or way.missing or not way.links or way.links[-1].key is None:
        return ()
    link = way.links[-1]
    if any(key.value == name for key, _ in link.around.value):
        return ()
    text, key = part.document.text, link.key
    written = _scalar(name, key.style, json_text=way.json_text)
    edit = edit_of(part.document.file, text, key.start_mark.index, key.end_mark.index, written)
    return _outward(part, (edit,))


def renamed(part: Part, name: str) -> Correction | None:
    """The correction that gives a part the key that is meant."""
    return correction(f"rename {part.steps[-1]} to {name}", rename_key(part, (), name))


def remove(part: Part, steps: Steps) -> Edits:
    """Take out what is at ``steps`` (rule 3)."""
    way = _way(part, steps)
    return () if way is None or way.missing else _outward(part, way.removed())


def remove_repeated(part: Part, line: int) -> tuple[Edits, Edits, bool]:
    """Edits that take out the first, or the second, of two same keys, and whether their values are alike."""
    text, file = part.document.text, part.document.file
    node, *own = _repeated(text).get(line, (None,)) if _editable(part) else (None,)
    if node is None:
        return (), (), False
    way = _Way(file, text, (), node, ())
    first, second = (_outward(part, way.without(node, *one)) for one in own)
    return first, second, _shape(own[0][1]) == _shape(own[1][1])


@lru_cache(maxsize=4)
def _repeated(text: str) -> Mapping[int, tuple[Any, Any, Any]]:
    """Line of a key that stands a second time → its mapping, the first entry, the second."""
    found: dict[int, tuple[Any, Any, Any]] = {}
    waiting = list(_roots(text) or ())
    while waiting:
        node = waiting.pop()
        if isinstance(node, yaml.SequenceNode):
            waiting += node.value
        elif isinstance(node, yaml.MappingNode):
            waiting += [value for _, value in node.value]
            entries: dict[str, list[Any]] = {}
            for key, value in node.value:
                if isinstance(key, yaml.ScalarNode):
                    entries.setdefault(key.value, []).append((key, value))
            twice = [same for same in entries.values() if len(same) == 2]
            found |= {second[0].start_mark.line + 1: (node, first, second) for first, second in twice}
    return found


def insert_lines(part: Part, lines: Sequence[str]) -> Edits:
    """Put lines before the first one of a document, as far in as that one; the text is YAML."""
    text, file = part.document.text, part.document.file
    roots = _roots(text) if _editable(part) else None
    if part.steps or not roots or part.document.index >= len(roots):
        return ()
    root = roots[part.document.index]
    at, indent = root.start_mark.index, root.start_mark.column
    if not isinstance(root, yaml.MappingNode) or root.flow_style or text[at - indent : at].strip(" "):
        return ()
    new = "".join(f"{' ' * indent}{one}{_newline(text)}" for one in lines)
    return _outward(part, (edit_of(file, text, at - indent, at - indent, new),))


def written_as(part: Part, steps: Steps) -> str | None:
    """How a scalar is written in the text, without quotation marks; None: it is none, or not to be found."""
    way = _way(part, steps)
    if way is None or way.missing or not isinstance(way.node, yaml.ScalarNode):
        return None
    return str(way.node.value)


# --- the way to a value ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Link:
    """One step of the way: the collection that it leads into, and the key, if it is a mapping."""

    around: Any
    key: Any
    node: Any


@dataclass(frozen=True, slots=True)
class _Way:
    """How a value is reached."""

    file: str
    text: str
    links: tuple[_Link, ...]
    node: Any
    missing: Steps
    """The steps that lead nowhere."""

    @property
    def json_text(self) -> bool:
        return _is_json(self.text)

    def replaced(self, value: object) -> Edits:
        node = self.node
        start, end = node.start_mark.index, node.end_mark.index
        if isinstance(node, yaml.ScalarNode) and not isinstance(value, Mapping | list | tuple):
            if start == end or node.style in ("|", ">"):
                return ()
            new = _scalar(value, node.style, json_text=self.json_text)
            return (edit_of(self.file, self.text, start, end, new),)
        if isinstance(node, yaml.ScalarNode) or not isinstance(value, Mapping | list | tuple):
            return ()
        end = _end(node)
        if node.flow_style or self.json_text or "#" in self.text[start:end]:
            if "#" in self.text[start:end]:
                return ()
            return (edit_of(self.file, self.text, start, end, _flow(value, json_text=self.json_text)),)
        column = node.start_mark.column
        lines = _newline(self.text).join(_block(value, column)).lstrip(" ")
        return (edit_of(self.file, self.text, start, end, lines),)

    def added(self, key: str | int, value: object) -> Edits:
        """A new entry of the collection that was reached (rule 4)."""
        node = self.node
        if isinstance(node, yaml.SequenceNode):
            return self.appended(value) if key == len(node.value) else ()
        if not isinstance(node, yaml.MappingNode) or not isinstance(key, str):
            return ()
        if any(one.value == "<<" for one, _ in node.value):
            return ()
        newline = _newline(self.text)
        if node.flow_style:
            entry = (
                f"{_scalar(key, None, json_text=self.json_text)}: {_flow(value, json_text=self.json_text)}"
            )
            if not node.value:
                at = node.start_mark.index + 1
                return (edit_of(self.file, self.text, at, at, entry),)
            last_key, last = node.value[-1]
            begin = self.text.rfind("\n", 0, last_key.start_mark.index) + 1
            before = self.text[begin : last_key.start_mark.index]
            apart = f",{newline}{before}" if begin > node.start_mark.index and not before.strip() else ", "
            at = _end(last)
            return (edit_of(self.file, self.text, at, at, f"{apart}{entry}"),)
        if not node.value:
            return ()
        first_key, (_, last) = node.value[0][0], node.value[-1]
        return self.below(last, _block({key: value}, first_key.start_mark.column))

    def appended(self, value: object) -> Edits:
        """One more member of the list that was reached, which has some."""
        node = self.node
        if not node.value:
            return ()
        if not node.flow_style:
            return self.below(node.value[-1], _block([value], node.start_mark.column))
        at = _end(node.value[-1])
        return (edit_of(self.file, self.text, at, at, f", {_flow(value, json_text=self.json_text)}"),)

    def below(self, last: Any, rows: Iterable[str]) -> Edits:  # noqa: ANN401 - a node of PyYAML
        """New lines after those of the last entry."""
        newline = _newline(self.text)
        lines = newline.join(rows)
        at = _end(last)
        if at and self.text[at - 1] == "\n":
            return (edit_of(self.file, self.text, at, at, f"{lines}{newline}"),)
        stop = self.text.find("\n", at)
        at = len(self.text) if stop < 0 else stop - (self.text[stop - 1 : stop] == "\r")
        return (edit_of(self.file, self.text, at, at, f"{newline}{lines}"),)

    def removed(self) -> Edits:
        if not self.links:
            return ()
        link = self.links[-1]
        if len(link.around.value) == 1:
            outer = _Way(self.file, self.text, self.links[:-1], link.around, ())
            return outer.removed()
        return self.without(link.around, link.key, link.node)

    def without(self, around: Any, key: Any, node: Any) -> Edits:  # noqa: ANN401 - nodes of PyYAML
        """The text without one of several entries of a collection."""
        entries = around.value if key is None else [value for _, value in around.value]
        firsts = around.value if key is None else [one for one, _ in around.value]
        number = next(at for at, one in enumerate(entries) if one is node)
        begin, end = firsts[number].start_mark.index, _end(node)
        if around.flow_style:
            if number + 1 < len(entries):
                end = firsts[number + 1].start_mark.index
            else:
                begin = _end(entries[number - 1])
            return () if "#" in self.text[begin:end] else (edit_of(self.file, self.text, begin, end, ""),)
        line = self.text.rfind("\n", 0, begin) + 1
        before = self.text[line:begin]
        dash = key is None and re.fullmatch(r" *- +", before)
        if before.strip() and not dash:
            if key is None or number or not re.fullmatch(r" *(?:- +)+", before):
                return ()
            stop = firsts[number + 1].start_mark.index  # the first entry of an item: the dash stays
            return () if "#" in self.text[end:stop] else (edit_of(self.file, self.text, begin, stop, ""),)
        if self.text[end - 1 : end] != "\n":
            stop = self.text.find("\n", end)
            end = len(self.text) if stop < 0 else stop + 1
            if stop < 0 and line:  # the last line, which does not end: the one before it ends so then
                line -= 2 if self.text[line - 2 : line] == "\r\n" else 1
        return (edit_of(self.file, self.text, line, end, ""),)


def _editable(part: Part) -> bool:
    document = part.document
    inside = document.first_line > 1
    return bool(document.text) and inside == bool(document.indent) and len(document.text) <= LARGEST


def _outward(part: Part, edits: Edits) -> Edits:
    """The same edits in the text around, where the document is a block of that (rule 5)."""
    down, right = part.document.first_line - 1, part.document.indent
    return tuple(_moved(one, down, right) for one in edits) if right else edits


def _moved(edit: TextEdit, down: int, right: int) -> TextEdit:
    start, end = edit.start_line + down, edit.end_line + down
    space = " " * right
    if edit.start_column == edit.end_column == 1:  # whole lines
        rows = edit.text.split("\n")
        text = "\n".join(f"{space}{row}" if row else row for row in rows)
        return TextEdit(edit.file, start, 1, end, 1, text)
    text = edit.text.replace("\n", f"\n{space}")
    return TextEdit(edit.file, start, edit.start_column + right, end, edit.end_column + right, text)


def _way(part: Part, steps: Steps) -> _Way | None:
    """The way to a value; None where it is not to be walked (rule 1)."""
    way = _reached(part, steps)
    if way is None:
        return None
    node = way.node
    marked = way.text[node.start_mark.index : node.start_mark.index + 1] in ("&", "!", "*")
    return None if marked and not way.missing else way


def _reached(part: Part, steps: Steps) -> _Way | None:
    if not _editable(part):
        return None
    roots = _roots(part.document.text)
    if roots is None or part.document.index >= len(roots):
        return None
    node = roots[part.document.index]
    links: list[_Link] = []
    every = (*part.steps, *steps)
    for number, step in enumerate(every):
        inner = list(_inside(node, step))
        if len(inner) > 1:
            return None
        if not inner:
            return _Way(part.document.file, part.document.text, tuple(links), node, every[number:])
        key, below = inner[0]
        begin = key.end_mark.index if key is not None else node.start_mark.index
        if below.start_mark.index < begin or below.end_mark.index > node.end_mark.index:
            return None  # an alias: it stands elsewhere
        links.append(_Link(node, key, below))
        node = below
    return _Way(part.document.file, part.document.text, tuple(links), node, ())


def _inside(node: Any, step: str | int) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401 - nodes of PyYAML
    look()  # it goes through all of a file, for every finding in it
    if isinstance(node, yaml.MappingNode) and isinstance(step, str):
        yield from ((key, value) for key, value in node.value if key.value == step)
    elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        yield None, node.value[step]


@lru_cache(maxsize=8)
def _roots(text: str) -> tuple[Any, ...] | None:
    """The nodes of all documents; None where PyYAML has something against the text."""
    try:
        return tuple(yaml.compose_all(text, Loader=LOADER))
    except (yaml.YAMLError, RecursionError, ValueError):
        return None


def _end(node: Any) -> int:  # noqa: ANN401 - a node of PyYAML
    """Where a node ends; those in block layout are said to end where the next one begins."""
    while not isinstance(node, yaml.ScalarNode) and not node.flow_style and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    return int(node.end_mark.index)


def _shape(node: Any) -> object:  # noqa: ANN401 - a node of PyYAML
    if isinstance(node, yaml.ScalarNode):
        return node.tag, node.value
    if isinstance(node, yaml.MappingNode):
        return [(_shape(key), _shape(value)) for key, value in node.value]
    return [_shape(one) for one in node.value]


# --- values as text -------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _is_json(text: str) -> bool:
    return BRACKET.match(text) is not None


def _scalar(value: object, style: str | None, *, json_text: bool) -> str:
    """A value as it is written; ``style``: the quotation mark that was there before."""
    if not isinstance(value, str):
        return json.dumps(value)
    if json_text or style == '"':
        return json.dumps(value, ensure_ascii=False)
    if style == "'":
        return "'" + value.replace("'", "''") + "'" if value.isprintable() else json.dumps(value)
    plain = PLAIN.fullmatch(value) and not WORDS.fullmatch(value) and not EXPONENT.fullmatch(value)
    return value if plain or _is_key(value) else json.dumps(value, ensure_ascii=False)


def _is_key(value: str) -> bool:
    """``nvidia.com/gpu``, ``hugepages-1Gi``: names that need no quotation marks."""
    return bool(re.fullmatch(r"[a-z][a-z0-9.-]*/[A-Za-z0-9._-]*[A-Za-z0-9]", value))


def _flow(value: object, *, json_text: bool) -> str:
    if isinstance(value, Mapping):
        entries = (
            f"{_scalar(key, None, json_text=json_text)}: {_flow(one, json_text=json_text)}"
            for key, one in value.items()
        )
        return "{" + ", ".join(entries) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_flow(one, json_text=json_text) for one in value) + "]"
    return _scalar(value, None, json_text=json_text)


def _block(value: object, indent: int) -> Iterator[str]:
    """The lines of a collection, whose members begin at a column."""
    space = " " * indent
    if isinstance(value, Mapping):
        for key, one in value.items():
            name = _scalar(str(key), None, json_text=False)
            if isinstance(one, Mapping) and one:
                yield f"{space}{name}:"
                yield from _block(one, indent + 2)
            elif isinstance(one, list | tuple) and one:
                yield f"{space}{name}:"
                yield from _block(one, indent)
            else:
                yield f"{space}{name}: {_flow(one, json_text=False)}"
    elif isinstance(value, list | tuple):
        for one in value:
            if isinstance(one, Mapping) and one:
                first, *rest = _block(one, indent + 2)
                yield f"{space}- {first.lstrip(' ')}"
                yield from rest
            else:
                yield f"{space}- {_flow(one, json_text=False)}"
