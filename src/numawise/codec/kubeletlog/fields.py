"""The parts of a structured message: its text, then ``key=value`` pairs.

Rules kept here:

1. A value is a quoted string, JSON, Go's print of a value (``map[cpu:[{NUMANodeAffinity:01 …}]]``, 1.21 to
   1.27, blanks included), a block of lines between ``<`` and ``>``, or a bare word.
2. A value that never ends stands as far as it goes, and the message is marked as cut off.
"""

import json
import re
from collections.abc import Mapping

from numawise.results.log import NOBODY, PodRef
from numawise.strconv import whole_number
from numawise.values import dataclass, field

QUOTED = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"', re.DOTALL)
"""Possessive: nothing is kept to try again, however long the text is."""
KEY = re.compile(r"\s*([^\s=\"]+(?: [^\s=\"]+)?)=")
BARE = re.compile(r"\S*")
ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{3}|.)", re.DOTALL)
PLAIN = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
CLOSING = {"{": "}", "[": "]", "(": ")"}
LONG_POD = re.compile(r"([^\s_()\"']+)_([^\s_()\"']+)\(([^\s()\"']*)\)")
UID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class PrintedField:
    """A value as it was printed, not in quotes."""

    text: str


@dataclass(frozen=True, slots=True)
class Fields:
    """The values of a message by key; text, ``Printed``, or what JSON gave."""

    values: Mapping[str, object] = field(default_factory=dict)
    cut: bool = False

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def text(self, *keys: str) -> str:
        """The first of these that is there, as text; '' when none is."""
        for key in keys:
            value = self.values.get(key)
            if isinstance(value, str):
                return value
            if isinstance(value, PrintedField):
                return value.text
            if value is not None:
                return json.dumps(value)
        return ""

    def number(self, *keys: str) -> int | None:
        """The first of these that is a whole number."""
        for key in keys:
            value = self.values.get(key)
            if isinstance(value, int) and not isinstance(value, bool):
                return value
            shown = self.text(key)
            if shown.isascii() and shown.isdecimal():
                return whole_number(shown)
        return None

    def value(self, key: str) -> object:
        """What JSON says there; text that is not JSON comes as ``Printed``."""
        found = self.values.get(key)
        if isinstance(found, PrintedField):
            try:
                return json.loads(found.text)
            except (ValueError, RecursionError):
                return found
        return found

    def pod(self, key: str = "pod") -> PodRef:
        """The pod that is named under a key, with ``podUID`` where that stands beside it."""
        value = self.value(key)
        uid = self.text("podUID")
        found = PodRef(uid=uid)
        if isinstance(value, Mapping):
            found = PodRef(str(value.get("name") or ""), str(value.get("namespace") or ""), uid)
        elif value is not None:
            found = pod_of(self.text(key)).with_(found)
        if not found.name and self.text("podName"):
            found = PodRef(self.text("podName"), self.text("podNamespace"), uid)
        return found


def pod_of(text: str) -> PodRef:
    """``namespace/name``, ``name_namespace(uid)``, a uid or a name."""
    text = text.strip()
    long = LONG_POD.fullmatch(text)
    if long:
        return PodRef(long[1], long[2], long[3])
    if UID.fullmatch(text):
        return PodRef(uid=text)
    namespace, slash, name = text.partition("/")
    if slash:
        return PodRef(name, namespace)
    return PodRef(text) if text else NOBODY


def pods_of(fields: Fields, key: str = "pods") -> tuple[PodRef, ...]:
    """A list of pods, in any of the forms it had over time."""
    value = fields.value(key)
    if isinstance(value, list):
        found = []
        for one in value:
            if isinstance(one, Mapping):
                found.append(PodRef(str(one.get("name") or ""), str(one.get("namespace") or "")))
            else:
                found.append(pod_of(str(one)))
        return tuple(found)
    text = fields.text(key)
    long = [PodRef(*groups) for groups in LONG_POD.findall(text)]
    if long:
        return tuple(long)
    return tuple(pod_of(word) for word in re.split(r"[\s,]+", text.strip("[] ")) if word)


# --- reading --------------------------------------------------------------------------------


def parse_message(text: str) -> tuple[str, Fields] | None:
    """The message and its fields; None when this is not a structured message."""
    opened = QUOTED.match(text)
    if opened is None:
        return (unquoted(text[1:]), Fields(cut=True)) if text.startswith('"') else None
    values: dict[str, object] = {}
    at, cut = opened.end(), False
    while not cut:
        key = KEY.match(text, at)
        if key is None:
            break
        value, at, cut = _value(text, key.end())
        values[key[1]] = value
    return unquoted(opened[1]), Fields(values, cut)


def _value(text: str, at: int) -> tuple[object, int, bool]:
    """A value, where it ends, and whether it does not."""
    if text.startswith('"', at):
        found = QUOTED.match(text, at)
        if found is None:
            return unquoted(text[at + 1 :]), len(text), True
        return unquoted(found[1]), found.end(), False
    if text.startswith("<\n", at):
        end = text.find("\n >", at)
        lines = text[at + 2 : len(text) if end < 0 else end].splitlines()
        return (
            "\n".join(line.removeprefix("\t") for line in lines),
            end + 3 if end >= 0 else len(text),
            end < 0,
        )
    opening = at
    while opening < len(text) and (text[opening].isalnum() or text[opening] in "*&_."):
        opening += 1
    if opening < len(text) and text[opening] in CLOSING and _is_opener(text[at:opening]):
        end = closing_of(text, opening)
        return PrintedField(text[at:end] if end else text[at:]), end or len(text), not end
    found = BARE.match(text, at)
    assert found is not None
    return PrintedField(found[0]), found.end(), False


def _is_opener(lead: str) -> bool:
    return not lead or lead[0] in "&*" or lead.startswith("map") or lead[0].isalpha()


def closing_of(text: str, at: int) -> int:
    """Where a bracket is closed again, the bracket included; 0: nowhere.  Quoted text counts for nothing."""
    open_: list[str] = []
    size = len(text)
    while at < size:
        char = text[at]
        if char in CLOSING:
            open_.append(CLOSING[char])
        elif char == '"':
            found = QUOTED.match(text, at)
            if found is None:
                return 0
            at = found.end()
            continue
        elif open_ and char == open_[-1]:
            open_.pop()
            if not open_:
                return at + 1
        at += 1
    return 0


def unquoted(text: str) -> str:
    """What stands between the quotes of Go's ``%q``."""
    return ESCAPE.sub(_escaped, text) if "\\" in text else text


def _escaped(found: re.Match[str]) -> str:
    code = found[1]
    if code[0] in "xuU" and len(code) > 1:
        number = int(code[1:], 16)
        return chr(number) if number < 0x110000 else "\ufffd"
    if len(code) == 3:
        return chr(int(code, 8) & 0xFF)
    return PLAIN.get(code, code)
