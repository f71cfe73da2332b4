"""Laws of edits: a change of the text is the same change of the value, and nothing else moves."""

import json
from copy import deepcopy
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from numawise.codec.document import read_documents
from numawise.codec.edits import remove, rename_key, set_value
from numawise.results.correction import TextEdit, corrected, edit_of
from tests.property.strategies import laws

WORDS = st.sampled_from([
    "static", "none", "true", "0", "0-1", "100Mi", "yes", "", " a b", "a: b", "# no", "- x", "'", '"', "é…", "1e3", "null",
    "nvidia.com/gpu", "{", "[", "*a", "&a", "!b", "%", "@", "`", "x #y", "0x10", "~", "=", "<<", "-", "?", ":", "tab\there",
])  # fmt: skip
KEYS = st.sampled_from(
    ["cpu", "memory", "limits", "nvidia.com/gpu", "memory.available", "a b", "x-y", "Key", "k1", "k2"]
)
SCALARS = WORDS | st.integers(-5, 5) | st.booleans()
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
ROOTS = st.dictionaries(KEYS, VALUES, min_size=1, max_size=4)
COMMENT = "# a comment that stays\n"


def paths(value: Any, steps: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Where all values inside a value are."""
    inner = (
        list(value.items())
        if isinstance(value, dict)
        else list(enumerate(value))
        if isinstance(value, list)
        else []
    )
    return [here for key, one in inner for here in ((*steps, key), *paths(one, (*steps, key)))]


@st.composite
def texts(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A mapping, written in one of the layouts that people use."""
    value = draw(ROOTS)
    layout = draw(st.sampled_from(["block", "flow", "mixed", "json", "pretty"]))
    if layout in ("json", "pretty"):
        text = json.dumps(value, indent=2 if layout == "pretty" else None)
        return text, read(text).value
    flow = {"block": False, "flow": True, "mixed": None}[layout]
    indent = draw(st.sampled_from([2, 4]))
    text = yaml.safe_dump(
        value, default_flow_style=flow, indent=indent, sort_keys=False, allow_unicode=True, width=500
    )
    ending = draw(st.sampled_from(["\n", "\r\n"]))
    text = (COMMENT + text + COMMENT).replace("\n", ending)
    return text, read(text).value  # Go's YAML reads some words otherwise than PyYAML writes them


def read(text: str) -> Any:
    (document,) = read_documents(text, "file.yaml")
    return document


def parent(value: Any, steps: tuple[str | int, ...]) -> Any:
    for step in steps[:-1]:
        value = value[step]
    return value


def applied(text: str, edits: tuple[TextEdit, ...]) -> Any:
    after = corrected(text, edits)
    assert after.count(COMMENT.strip()) == text.count(COMMENT.strip())
    return read(after).value


@laws(600)
@given(texts(), st.data(), SCALARS)
def test_setting_a_value(written: tuple[str, dict[str, Any]], data: st.DataObject, new: object) -> None:
    text, value = written
    steps = data.draw(st.sampled_from(paths(value)))
    if edits := set_value(read(text).root, steps, new):
        parent(value, steps)[steps[-1]] = new
        assert applied(text, edits) == value


@laws(600)
@given(texts(), st.data(), VALUES)
def test_adding_an_entry(written: tuple[str, dict[str, Any]], data: st.DataObject, new: object) -> None:
    text, value = written
    around = data.draw(st.sampled_from([(), *paths(value)]))
    inside = parent(value, (*around, ""))
    if isinstance(inside, dict) and (edits := set_value(read(text).root, (*around, "new", "one"), new)):
        inside["new"] = {"one": new}
        assert applied(text, edits) == value


@laws(600)
@given(texts(), st.data())
def test_removing_what_is_there(written: tuple[str, dict[str, Any]], data: st.DataObject) -> None:
    text, value = written
    steps = data.draw(st.sampled_from(paths(value)))
    if edits := remove(read(text).root, steps):
        expected = deepcopy(value)
        while len(parent(expected, steps)) == 1:  # the last entry goes with what is around it
            steps = steps[:-1]
        del parent(expected, steps)[steps[-1]]
        assert applied(text, edits) == expected


@laws(300)
@given(texts(), st.data(), KEYS)
def test_renaming_a_key(written: tuple[str, dict[str, Any]], data: st.DataObject, name: str) -> None:
    text, value = written
    steps = data.draw(st.sampled_from(paths(value)))
    if isinstance(steps[-1], str) and (edits := rename_key(read(text).root, steps, name)):
        around = parent(value, steps)
        assert name not in around
        around[name] = around.pop(steps[-1])
        assert applied(text, edits) == value


@laws(300)
@given(st.text("ab\n\r é😀", max_size=30), st.data())
def test_an_edit_is_a_slice(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    edit = edit_of("f", text, start, end, "new")
    assert corrected(text, [edit]) == text[:start] + "new" + text[end:]
