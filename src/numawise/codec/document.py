"""Files as documents: YAML or JSON text, read as kubectl and the kubelet read it.

Rules kept here:

1. Text that begins with ``{`` or ``[`` is JSON when it parses as JSON, also as several
   values in a row.  Anything else is a stream of YAML documents; empty ones are left out.
2. YAML scalars mean what sigs.k8s.io/yaml makes of them (``codec.scalars``).  Keys are text: the key ``on``
   is ``"true"``.
3. A key that appears twice is refused, or reported to callers that ask for it; ``<<`` merges; what stands
   later wins.
4. Anchors may be used, but not to build more than 400,000 nodes, nor inside themselves.
5. Nothing recurses over the text; size, depth and counts are bounded far beyond any manifest.  Whoever serves
   others bounds the values of all that one answer reads (``patience.at_most``).
6. Lines are looked up in an index of the text (``codec.lines``); that of JSON is made when one is asked for.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from decimal import Decimal
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import yaml

from numawise.codec.infile import SPLIT, read_raw
from numawise.codec.lines import LineIndex, Steps, json_lines
from numawise.codec.scalars import LARGEST_INT, plain_scalar
from numawise.errors import InputError, cut, one_line, quoted, suggestion
from numawise.patience import look, most_values, values_read
from numawise.values import dataclass, field, replace

Plain = Any  # a dict or a list; the parser's events show which
Twice = Callable[[InputError], None]
Done = Callable[[int], None]

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MOST_NODES, MOST_ALIASED, MOST_DOCUMENTS, DEEPEST = 3_000_000, 400_000, 100_000, 500
MOST_REPEATED, MOST_TAGS = 1000, 100
KEYED = frozenset({"requests", "limits", "devices", "hugepages"})  # mappings whose keys are not fields
TOO_MANY = "holds more than {:,} values"
TOO_MANY_DOCUMENTS = f"holds more than {MOST_DOCUMENTS:,} documents"
BAD_MERGE = "map merge requires map or sequence of maps as the value"
TOO_DEEP, ORDINARY = f"is nested more than {DEEPEST} levels deep", "give an ordinary YAML or JSON file"

TAG = "tag:yaml.org,2002:"
OFTEN = 64  # how many nodes are read between two looks at the clock
TAGGED = {"int": (int,), "float": (float, int), "bool": (bool,), "null": (type(None),)}
JSON_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
LEVELS = {"{": 1, "[": 1, "}": -1, "]": -1}
NOT_BRACKETS = re.compile(r"[^{}\[\]]+")
LONE_HALF = re.compile(r"\\u[dD][89a-fA-F]")  # it may be half a character, which no output can carry
JSON_BLANK = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True, slots=True)
class Document:
    """One value out of a file, that knows on which line each part of it is."""

    value: object
    file: str = ""
    index: int = field(default=0, compare=False)
    lines: Callable[[], LineIndex] | None = field(default=None, repr=False, compare=False)
    first_line: int = field(default=1, compare=False)
    """Line of the file where the text of the document begins."""
    text: str = field(default="", repr=False, compare=False)
    """The whole text that it was read from; '' where that cannot be found again in the file."""
    indent: int = field(default=0, compare=False)
    """How far in the text stands, where it is a block of another document."""

    @property
    def root(self) -> "Part":
        """The whole value as a part."""
        return Part(self, (), self.value)

    def line(self, steps: Steps = ()) -> int | None:
        """Line of the part at ``steps``, or of the nearest one around it."""
        line = self.lines().line(self.index, steps) if self.lines else None
        return line if line is None else line + self.first_line - 1

    def error(self, steps: Steps, message: str, advice: str = "") -> InputError:
        """An error that names file, line and field."""
        return InputError(
            message, file=self.file, line=self.line(steps), field=field_name(steps), advice=advice
        )


@dataclass(frozen=True, slots=True)
class Part:
    """A value inside a document, with the steps that lead there."""

    document: Document
    steps: Steps
    value: object

    def error(self, message: str, advice: str = "") -> InputError:
        """An error about this part."""
        return self.document.error(self.steps, message, advice)

    def at(self, *steps: str | int) -> "Part":
        """The part further inside; its value is None when there is none."""
        value = self.value
        for step in steps:
            if isinstance(step, int):
                value = value[step] if isinstance(value, list) and step < len(value) else None
            else:
                value = value.get(step) if isinstance(value, Mapping) else None
        return Part(self.document, self.steps + steps, value)

    def mapping(self, known: Collection[str] = (), what: str = "a mapping") -> Mapping[str, object]:
        """The value as a mapping (None: an empty one) that has no keys but the known ones."""
        if self.value is None:
            return {}
        if not isinstance(self.value, Mapping):
            raise self.error(f"must be {what}, not {shown(self.value)}")
        for key in self.value:
            if not isinstance(key, str):
                raise self.error(f"has the key {shown(key)}, which is not text")
            if known and key not in known:
                raise self.at(key).error(f"unknown field {shown(key)}", suggestion(key, known))
        return self.value

    def items(self, what: str = "a list") -> list["Part"]:
        """The members of a list (None: no members)."""
        if self.value is None:
            return []
        if not isinstance(self.value, list | tuple):
            raise self.error(f"must be {what}, not {shown(self.value)}")
        return [Part(self.document, (*self.steps, i), value) for i, value in enumerate(self.value)]

    def integer(self, lowest: int, highest: int) -> int:
        """The value as an integer inside the bounds."""
        value = self.value
        if isinstance(value, int) and not isinstance(value, bool) and lowest <= value <= highest:
            return value
        bounds = f"from {lowest} to {highest}" if highest < LARGEST_INT else f"of at least {lowest}"
        if value is None:
            raise self.error(f"is missing; it must be an integer {bounds}")
        raise self.error(f"must be an integer {bounds}, not {shown(value)}")

    def text(self) -> str:
        """The value as text."""
        if isinstance(self.value, str):
            return self.value
        if self.value is None:
            raise self.error("is missing")
        raise self.error(f"must be text, not {shown(self.value)}", "put it in quotes")

    def inside(self) -> tuple["Document", ...]:
        """The documents that are written as text in this part, with the lines of the file around them."""
        first = self.document.line(self.steps) or 1
        try:
            documents = read_documents(self.text(), self.document.file)
        except InputError as problem:
            line = first + (problem.line or 0)
            raise InputError(
                problem.message, file=self.document.file, line=line, advice=problem.advice
            ) from None
        return tuple(replace(one, **self.block(self.text(), first + 1)) for one in documents)

    def block(self, text: str, first_line: int) -> dict[str, Any]:
        """Where a text that is a value of this document stands in the file: members of its documents.

        Only a block whose lines are those of the text, each as far in as the others, can be changed there.
        """
        rows = text.removesuffix("\n").split("\n")
        around = self.document
        outer = around.text.split("\n")[first_line - 1 :][: len(rows)] if around.first_line == 1 else []
        indent = next((len(own) - len(row) for own, row in zip(outer, rows, strict=False) if row), 0)
        same = len(outer) == len(rows) and all(
            own == " " * indent + row or not (own.strip() or row.strip())
            for own, row in zip(outer, rows, strict=True)
        )
        return {"first_line": first_line, "text": text if same and indent else "", "indent": indent}


def read_file(path: Path | str) -> tuple[Document, ...]:
    """Read all documents of a file; ``-`` is standard input."""
    return read_documents(*read_raw(path))


def read_documents(
    text: str | bytes, file: str, twice: Twice | None = None, done: Done | None = None
) -> tuple[Document, ...]:
    """Read all documents of a YAML or JSON text; at least one.

    ``twice``: called with repeated keys; ``done``: with how much of a long text was read.
    """
    raw = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = raw.count(b"\n", 0, problem.start) + 1
        message = f"is not text: byte 0x{raw[problem.start]:02x} is not UTF-8"
        raise InputError(message, file=file, line=line, advice="save it as UTF-8 YAML or JSON") from None
    start = JSON_BLANK.match(text).end()  # type: ignore[union-attr]
    found = _json_documents(text, file) if text[start : start + 1] in ("{", "[") else None
    if found is None:
        found = _yaml_documents(text, file, twice, done)
    if not found:
        raise InputError("is empty", file=file, advice="give at least one YAML or JSON document")
    return found


def number_text(value: float) -> str:
    """A number as Go writes it into JSON, on its way into a quantity."""
    if isinstance(value, int) and -LARGEST_INT - 1 <= value <= LARGEST_INT:
        return str(value)
    try:
        number = float(value)
    except OverflowError:
        return str(value)
    if number == 0 or 1e-6 <= abs(number) < 1e21:
        return f"{Decimal(repr(number)):f}".removesuffix(".0")
    return re.sub(r"e([+-])0+", r"e\1", repr(number))


def field_name(steps: Steps) -> str:
    """Steps as Kubernetes writes a field: ``spec.containers[0].resources.limits[nvidia.com/gpu]``."""
    out = ""
    for before, step in zip(("", *steps), steps, strict=False):
        text = one_line(cut(str(step)))
        if isinstance(step, int) or before in KEYED or not step.isidentifier():
            out += f"[{text}]"
        else:
            out += f".{text}" if out else text
    return out


def shown(value: object) -> str:
    """A value in one short line, for a message."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    return (
        quoted(value, '"')
        if isinstance(value, str | int) and not isinstance(value, bool)
        else cut(json.dumps(value, default=repr))
    )


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key appears twice")  # the YAML reader will say which, and where
    return found


def _json_documents(text: str, file: str) -> tuple[Document, ...] | None:
    """Documents of a JSON text; None when the YAML reader is to judge it."""
    _check_json_size(text, file)
    decoder = json.JSONDecoder(object_pairs_hook=_object, parse_constant=str)
    lines = cache(lambda: json_lines(text))
    lone = LONE_HALF.search(text)
    found: list[Document] = []
    at = JSON_BLANK.match(text).end()  # type: ignore[union-attr]
    try:
        while at < len(text):
            if len(found) == MOST_DOCUMENTS:
                raise InputError(TOO_MANY_DOCUMENTS, file=file, advice=SPLIT)
            value, at = decoder.raw_decode(text, at)
            if lone:
                value = json.loads(json.dumps(value, ensure_ascii=False).encode(errors="replace"))
            found.append(Document(value, file, len(found), lines, text=text))
            at = JSON_BLANK.match(text, at).end()  # type: ignore[union-attr]
    except RecursionError:
        raise InputError(TOO_DEEP, file=file, line=1, advice=ORDINARY) from None
    except json.JSONDecodeError as problem:
        if not re.match(r'[\s\[]*\{\s*"[^"\n]*"\s*:', text) or "\n---" in text:
            return None
        what, advice = f"is not valid JSON: {problem.msg}", "fix the JSON at this line"
        raise InputError(what, file=file, line=problem.lineno, advice=advice) from None
    except ValueError:
        return None
    return tuple(found)


def _check_json_size(text: str, file: str) -> None:
    """Refuse JSON with too many values, or nested too deeply, before it is read (rule 5)."""
    if sum(map(text.count, ",:{[")) <= DEEPEST:
        return
    bare = JSON_STRING.sub("", text)
    nodes, most = sum(map(bare.count, ",:{[")), most_values(MOST_NODES)
    if nodes > most:
        raise InputError(TOO_MANY.format(most), file=file, advice=SPLIT)
    values_read(nodes)
    brackets = NOT_BRACKETS.sub("", bare)
    if max(accumulate(map(LEVELS.__getitem__, brackets)), default=0) > DEEPEST:
        raise InputError(TOO_DEEP, file=file, line=1, advice=ORDINARY)


NO_KEY, MERGE, UNFINISHED = object(), object(), object()
VALUES = frozenset({yaml.ScalarEvent, yaml.AliasEvent, yaml.MappingStartEvent, yaml.SequenceStartEvent})


class _Open:
    """A collection whose end has not been read yet."""

    __slots__ = ("anchor", "before", "entry", "items", "key", "key_line", "merged")

    def __init__(self, items: Plain, anchor: str | None, before: int, entry: int) -> None:
        self.items, self.anchor, self.before, self.entry = items, anchor, before, entry
        self.key: Any = NO_KEY
        self.key_line = 0
        self.merged: set[str] = set()


def _yaml_documents(text: str, file: str, twice: Twice | None, done: Done | None) -> tuple[Document, ...]:
    found: list[Document] = []
    lines = LineIndex()
    if text.count("\n%TAG") > MOST_TAGS:  # the parser compares each with all before it
        raise InputError(f"has more than {MOST_TAGS:,} %TAG directives", file=file, advice=ORDINARY)
    try:
        for index, value in enumerate(_yaml_values(text, file, lines, twice, done)):
            if index == MOST_DOCUMENTS:
                raise InputError(TOO_MANY_DOCUMENTS, file=file, advice=SPLIT)
            if value is not None:
                found.append(Document(value, file, index, lambda: lines, text=text))
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        what = problem.problem or problem.context or "cannot be parsed"
        rows = text.splitlines()
        line = max(1, min(mark.line + 1, len(rows))) if mark else 1
        tab = "\t" in "".join(rows[line - 1 : line])
        advice = "indent with spaces, not tabs" if tab else "check indentation, quotes and colons there"
        raise InputError(f"is not valid YAML: {what}", file=file, line=line, advice=advice) from None
    except yaml.reader.ReaderError as problem:
        line = text.encode(errors="replace").count(b"\n", 0, problem.position) + 1
        raise InputError(f"is not text: {problem.reason}", file=file, line=line, advice=ORDINARY) from None
    except (yaml.YAMLError, UnicodeError) as problem:
        what = str(problem).partition("\n")[0]
        raise InputError(f"is not valid YAML: {what}", file=file, advice=ORDINARY) from None
    return tuple(found)


def _yaml_values(
    text: str, file: str, lines: LineIndex, twice: Twice | None, done: Done | None
) -> Iterator[object]:
    """Build each document from the parser's events, without recursion (rules 3 to 5)."""
    stack: list[_Open] = []
    anchors: dict[str, tuple[object, int]] = {}
    root: object = None
    nodes = aliased = repeated = 0
    most = most_values(MOST_NODES)
    events: Iterator[Any] = yaml.parse(text, Loader=LOADER)  # told apart by `kind`, which no checker follows
    for event in events:
        kind = type(event)
        if nodes > most:
            raise _at(event, file, TOO_MANY.format(most), SPLIT)
        if not nodes % OFTEN:
            look()
        entry = 0
        if kind in VALUES:
            parent = stack[-1] if stack else None
            line = event.start_mark.line + 1
            if parent is None:
                entry = lines.add(line)
                lines.roots.append(entry)
            elif type(parent.items) is list:
                entry = lines.add(line)
            elif parent.key is NO_KEY:
                parent.key_line = line
            else:
                entry = lines.add(parent.key_line, "<<" if parent.key is MERGE else parent.key)
        if kind is yaml.ScalarEvent:
            nodes += 1
            try:
                value = _scalar(event)
            except ValueError as problem:
                raise _at(event, file, str(problem), "put it in quotes if it is text") from None
            if event.anchor:
                anchors[event.anchor] = value, 1
        elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
            nodes += 1
            items: Plain = {} if kind is yaml.MappingStartEvent else []
            stack.append(_Open(items, event.anchor, nodes, entry))
            if done is not None and not nodes % OFTEN:
                done(event.start_mark.index)
            if len(stack) > DEEPEST:
                raise _at(event, file, TOO_DEEP, ORDINARY)
            if event.anchor:
                anchors[event.anchor] = UNFINISHED, 0
            continue
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            closed = stack.pop()
            lines.close(closed.entry)
            value = closed.items
            if closed.anchor:
                anchors[closed.anchor] = value, nodes - closed.before + 1
        elif kind is yaml.AliasEvent:
            value, size = anchors.get(event.anchor, (None, 0))
            if not size:
                what = "value contains itself" if value is UNFINISHED else "is not known here"
                raise _at(event, file, f"anchor {shown(event.anchor)} {what}", "write the value out")
            nodes, aliased = nodes + size, aliased + size
            if aliased > MOST_ALIASED:
                raise _at(event, file, "document contains excessive aliasing", "write the values out")
        elif kind is yaml.DocumentEndEvent:
            yield root
            root = None
            anchors = {}
            continue
        else:
            continue

        if not stack:
            root = value
            continue
        parent = stack[-1]
        items = parent.items
        if type(items) is list:
            items.append(value)
        elif parent.key is NO_KEY:
            if kind is yaml.ScalarEvent and value == "<<" and event.implicit[0]:
                parent.key = MERGE
                continue
            key = value if type(value) is str else _key(value, event, file)
            if key in items and key not in parent.merged:
                again = _at(event, file, f"the key {shown(key)} appears twice", "remove one of them")
                repeated += 1
                if twice is None or repeated > MOST_REPEATED:
                    raise again
                twice(again)
            parent.key = key
        elif parent.key is MERGE:
            parent.key = NO_KEY
            for merged in reversed(value if isinstance(value, list) else [value]):
                if not isinstance(merged, dict):
                    raise _at(event, file, BAD_MERGE, "let << name an anchored mapping")
                items.update(merged)
                parent.merged.update(merged)
        else:
            items[parent.key] = value
            if parent.merged:
                parent.merged.discard(parent.key)
            parent.key = NO_KEY
    values_read(nodes)


def _scalar(event: yaml.ScalarEvent) -> object:
    """What a scalar means (rule 2); raise ``ValueError`` when it has no meaning."""
    text: str = event.value
    if event.tag is None:
        return text if not event.implicit[0] else plain_scalar(text)
    name = event.tag.removeprefix(TAG)
    value = plain_scalar(text) if name in TAGGED else text
    if name in TAGGED and type(value) not in TAGGED[name]:
        raise ValueError(f"cannot decode {shown(text)} as a !!{name}")
    return value


def _key(value: object, event: yaml.Event, file: str) -> str:
    """A key that is not text, as text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return number_text(value)
    raise _at(event, file, f"{shown(value)} cannot be a key", "write a key as text")


def _at(event: yaml.Event, file: str, message: str, advice: str) -> InputError:
    line = event.start_mark.line + 1 if event.start_mark else None
    return InputError(message, file=file, line=line, advice=advice)


def mapping(value: object) -> Mapping[str, Any]:
    """A mapping as it is; nothing else has members."""
    return value if isinstance(value, Mapping) else {}
