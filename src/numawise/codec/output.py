"""Plain data as JSON, YAML or TOML text, and YAML with a reason above every field.

Rules kept here:

1. Without the comments it is plain YAML that every reader takes the same way: text is quoted unless it could
   not be anything but text.
2. Comments wrap, at the indentation of what they are about.
3. Characters that could steer a terminal are written as escapes of the format, so the data stay the same.
"""

import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from numawise.errors import STEERING, visible
from numawise.results.plan import Entry

PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?:[./-][A-Za-z0-9_]+)*|[0-9]+(?:[KMGT]i|[smh]|%)")
NOT_TEXT = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"})
BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
WIDTH = 100
TEXT_TAG = "tag:yaml.org,2002:str"
NUMERIC = tuple("0123456789+-.~")


def annotated_yaml(entries: Sequence[Entry], header: Sequence[str] = (), *, apart: bool = True) -> str:
    """The fields as YAML with comments; ``apart``: an empty line before those with a reason."""
    lines = [line for text in header for line in _comment(text, 0)]
    for entry in entries:
        if apart and entry.why and lines:
            lines.append("")
        lines += _entry(entry, 0)
    return "\n".join(lines) + "\n"


def comment_lines(texts: Sequence[str]) -> str:
    """Texts as comments, to stand above any YAML."""
    return "".join(f"{line}\n" for text in texts for line in _comment(text, 0))


def manifest_yaml(value: object) -> str:
    """A manifest in block style, keys in their order, texts of several lines as such."""
    return _escaped(yaml.dump(value, Dumper=_Manifests, sort_keys=False, allow_unicode=True, width=WIDTH))


class _Plain(yaml.SafeDumper):
    """Quotes text that has to be escaped (rule 3)."""


class _Manifests(yaml.SafeDumper):
    """Writes what people write."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ANN401, ARG002 - as the parent has it
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    if value.lower() in NOT_TEXT or (value[:1] in NUMERIC and not PLAIN.fullmatch(value)):
        style = '"'  # readers differ in what they take for a number or a truth
    if STEERING.search(value):
        style = '"'
    return dumper.represent_scalar(TEXT_TAG, value, style=style)


def _plain(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(TEXT_TAG, value, style='"' if STEERING.search(value) else None)


_Manifests.add_representer(str, _text)
_Plain.add_representer(str, _plain)


def _escaped(text: str) -> str:
    """JSON or YAML with escapes in its quoted texts (rule 3): both formats know these."""
    return STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def scalar(value: str | int | bool) -> str:  # noqa: FBT001 - a value, not a switch
    """A scalar as YAML (rule 1)."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if PLAIN.fullmatch(value) and value.lower() not in NOT_TEXT:
        return value
    return _escaped(json.dumps(value, ensure_ascii=False))


def _entry(entry: Entry, depth: int) -> Iterator[str]:
    yield from _comment(entry.why, depth)
    indent, value = "  " * depth, entry.value
    if not isinstance(value, tuple):
        yield f"{indent}{scalar(entry.name)}: {scalar(value)}"
    elif not value:
        yield f"{indent}{scalar(entry.name)}: {{}}"
    elif isinstance(value[0], Entry):
        yield f"{indent}{scalar(entry.name)}:"
        for inner in value:
            assert isinstance(inner, Entry)
            yield from _entry(inner, depth + 1)
    else:
        yield f"{indent}{scalar(entry.name)}:"
        for member in value:
            assert isinstance(member, tuple)
            yield from _member(member, depth)


def _member(fields: Sequence[Entry], depth: int) -> Iterator[str]:
    """One mapping in a list; the comment of its first field stands above it."""
    indent = "  " * depth
    yield from _comment(fields[0].why, depth)
    first = True
    for field in fields:
        for line in _entry(Entry(field.name, field.value), depth + 1):
            yield f"{indent}- {line[len(indent) + 2 :]}" if first else line
            first = False


def _comment(text: str, depth: int) -> Iterator[str]:
    indent = "  " * depth
    for line in text.splitlines():
        for part in textwrap.wrap(line, WIDTH - len(indent) - 2) or [""]:
            yield f"{indent}# {visible(part)}".rstrip()


# --------------------------------------------------------------------------------------------------
# Plain data as JSON or YAML text for people and programs.


def to_json(value: object) -> str:
    """Indented JSON, one trailing newline."""
    return _escaped(json.dumps(value, indent=2, ensure_ascii=False)) + "\n"


def to_yaml(value: object) -> str:
    """YAML in block style, keys in the given order."""
    return _escaped(yaml.dump(value, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=110))


# --- TOML -------------------------------------------------------------------------------------


def toml_text(value: Mapping[str, Any], *path: str) -> str:
    """A mapping as TOML: values first, then tables."""
    lines = [f"{_key(name)} = {_toml(one)}" for name, one in value.items() if not isinstance(one, Mapping)]
    if path and (lines or not value):
        lines = [f"[{'.'.join(map(_key, path))}]", *lines]
    text = "\n".join(lines) + "\n" if lines else ""
    for name, one in value.items():
        if isinstance(one, Mapping):
            inner = toml_text(one, *path, name)
            text += f"\n{inner}" if text else inner
    return text


def _key(name: str) -> str:
    return name if BARE_KEY.fullmatch(name) else json.dumps(name)


def _toml(value: Any) -> str:  # noqa: ANN401 - any value of a file
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(name)} = {_toml(one)}" for name, one in value.items()) + " }"
    return str(value) if isinstance(value, float) else json.dumps(value)
