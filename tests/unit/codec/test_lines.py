"""Lines of values: against another way to find them, and without walking the text for each question."""

import io
import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from numawise.apps.check.lint import lint
from numawise.codec.document import read_documents
from numawise.inputs.spec import NodeSpec
from numawise.render.terminal import CLEAR_LINE
from tests.property.strategies import laws

KEYS = st.text(st.sampled_from('ab"\\\n é:{[-'), min_size=1, max_size=4).map(lambda key: f"k{key}")
SCALARS = st.none() | st.booleans() | st.integers(-9, 99) | KEYS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=30,
)
Steps = tuple[str | int, ...]


def composed(node: yaml.Node, line: int, steps: Steps = ()) -> Iterator[tuple[Steps, int]]:
    """Every value with its line, by the marks of PyYAML's own tree of nodes."""
    yield steps, line + 1
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield from composed(value, key.start_mark.line, (*steps, key.value))
    elif isinstance(node, yaml.SequenceNode):
        for i, value in enumerate(node.value):
            yield from composed(value, value.start_mark.line, (*steps, i))


def compare(text: str) -> None:
    documents = read_documents(text, "f") if text.strip() else ()
    nodes = [node for node in yaml.compose_all(text, Loader=yaml.SafeLoader) if node.tag[-4:] != "null"]
    assert len(documents) == len(nodes)
    for document, node in zip(documents, nodes, strict=True):
        for steps, line in composed(node, node.start_mark.line):
            assert document.line(steps) == line, steps


@laws(150)
@given(values=st.lists(st.dictionaries(KEYS, VALUES, min_size=1), min_size=1, max_size=3), flow=st.booleans())
def test_lines_of_yaml(values: list[object], *, flow: bool) -> None:
    dumped = yaml.safe_dump_all(values, default_flow_style=flow, width=20, allow_unicode=True)
    compare(f"# a comment\n\n{dumped}")


@laws(150)
@given(
    st.dictionaries(KEYS, VALUES, min_size=1) | st.lists(VALUES, min_size=1), st.sampled_from([None, 0, 3])
)
def test_lines_of_json(value: object, indent: int | None) -> None:
    compare(json.dumps(value, indent=indent, ensure_ascii=False))


def test_several_json_values_in_a_row() -> None:
    first, second = read_documents('\n{"a":\n1}\n\n{"a": [\n0,\n{"b": 2}]}', "f")
    assert [first.line(("a",)), second.line(()), second.line(("a", 1, "b"))] == [2, 5, 7]


# --- no question walks the text -------------------------------------------------------------


def pods(count: int) -> dict[str, object]:
    env = [{"name": f"V{i}", "value": "x"} for i in range(10)]
    limits = {"nvidia.com/gpu": "1"}
    container = {"name": "c", "image": "i", "env": env, "resources": {"limits": limits}}
    items = [
        {"kind": "Pod", "metadata": {"name": f"p{i}"}, "spec": {"containers": [container]}}
        for i in range(count)
    ]
    return {"apiVersion": "v1", "kind": "List", "items": items}


def calls_of_check(path: Path) -> int:
    """How many calls, and returns into generators, a check makes."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        report = lint(NodeSpec(), (str(path),))
    finally:
        sys.setprofile(None)
    assert {finding.code for finding in report.findings} >= {"NW430", "NW431"}
    return calls


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_a_check_costs_what_its_text_is_long(form: str, tmp_path: Path) -> None:
    path = tmp_path / f"pods.{form}"
    counts = []
    for count in (1, 10, 20, 80):
        text = json.dumps(pods(count), indent=1)
        path.write_text(text if form == "json" else yaml.safe_dump(json.loads(text)))
        counts.append(calls_of_check(path))
    _, first, second, third = counts  # the very first also reads tables
    assert third - second < 6.5 * (second - first)  # 60 more pods against 10 more


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_long_check_shows_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("numawise.render.progress.time.monotonic", itertools.count(step=2).__next__)
    path = tmp_path / "pods.yaml"
    path.write_text(yaml.safe_dump(json.loads(json.dumps(pods(40)))))
    terminal = Terminal()
    lint(NodeSpec(), (str(path),), terminal=terminal)
    assert "reading  " in terminal.getvalue()
    assert "pods  " in terminal.getvalue()
    assert "39/40" in terminal.getvalue()
    assert terminal.getvalue().endswith(CLEAR_LINE)
    pipe = io.StringIO()
    lint(NodeSpec(), (str(path),), terminal=pipe)
    assert not pipe.getvalue()
