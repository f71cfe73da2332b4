"""Text to documents: what each scalar means, what is refused, and on which line things stand."""

import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from numawise.codec.document import Document, field_name, number_text, read_documents, read_file, shown
from numawise.errors import InputError, suggestion

MEGABYTES = 10_000_000


def values(text: str | bytes) -> list[Any]:
    return [document.value for document in read_documents(text, "f")]


def complaint(text: str | bytes) -> str:
    with pytest.raises(InputError) as caught:
        read_documents(text, "f")
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(("text", "expected"), [
    ("yes",                  True),
    ("On",                   True),
    ("y",                    True),
    ("TRUE",                 True),
    ("no",                   False),
    ("OFF",                  False),
    ("N",                    False),
    ("yES",                  "yES"),
    ("~",                    None),
    ("Null",                 None),
    ("nil",                  "nil"),
    ("12",                   12),
    ("+12",                  12),
    ("-12",                  -12),
    ("1_000",                1000),
    ("010",                  8),
    ("0o10",                 8),
    ("08",                   8.0),
    ("0x1F",                 31),
    ("-0b11",                -3),
    ("1:30",                 "1:30"),
    ("190:20:30",            "190:20:30"),
    ("2026-01-01",           "2026-01-01"),
    ("2026-01-01T10:00:00Z", "2026-01-01T10:00:00Z"),
    ("0.5",                  0.5),
    (".5",                   0.5),
    ("5.",                   5.0),
    (".5_0",                 0.5),
    ("._5",                  "._5"),
    ("1e9",                  1e9),
    ("1e999",                "1e999"),
    ("500m",                 "500m"),
    ("8Gi",                  "8Gi"),
    ("18446744073709551615", 2**64 - 1),
    ("18446744073709551616", 2.0**64),
    ("'12'",                 "12"),
    ("!!str 12",             "12"),
    ("!!int '12'",           12),
    ("!custom 12",           "12"),
    ("! 12",                 "12"),
])  # fmt: skip
def test_a_scalar_means_what_kubernetes_makes_of_it(text: str, expected: object) -> None:
    (found,) = values(f"a: {text}")
    assert found == {"a": expected}
    assert type(found["a"]) is type(expected)


@pytest.mark.parametrize(("text", "expected"), [
    pytest.param("a: 1\n---\nb: 2\n",           [{"a": 1}, {"b": 2}],              id="two documents"),
    pytest.param("---\n# c\n---\na: 1\n---\n",  [{"a": 1}],                        id="none from nothing"),
    pytest.param('{"a": 1}',                    [{"a": 1}],                        id="json"),
    pytest.param('{"a": 1}{"b": 2}\n{"c": []}', [{"a": 1}, {"b": 2}, {"c": []}],   id="json in a row"),
    pytest.param('{"a": 1}\n---\n{"b": 2}',     [{"a": 1}, {"b": 2}],              id="json as yaml"),
    pytest.param("{a: b}",                      [{"a": "b"}],                      id="flow style"),
    pytest.param('{"a": NaN}',                  [{"a": "NaN"}],                    id="no such json number"),
    pytest.param('{"a": "\\ud800"}',            [{"a": "?"}],                      id="half a character"),
    pytest.param("1: a\non: b\n1.5: c\n",       [{"1": "a", "true": "b", "1.5": "c"}], id="keys are text"),
    pytest.param("a: &x {p: 1}\nb: *x\n",       [{"a": {"p": 1}, "b": {"p": 1}}],  id="alias"),
    pytest.param("{<<: {p: 1, q: 2}, q: 3}",    [{"p": 1, "q": 3}],                id="merge"),
    pytest.param("{<<: [{p: 1}, {p: 2, q: 2}]}", [{"p": 1, "q": 2}],               id="merge, the first wins"),
    pytest.param("{p: 0, <<: {p: 1}}",          [{"p": 1}],                        id="a later merge wins"),
    pytest.param("{'<<': 1}",                   [{"<<": 1}],                       id="a quoted merge is a key"),
    pytest.param(b"\xef\xbb\xbfa: 1",           [{"a": 1}],                        id="byte order mark"),
])  # fmt: skip
def test_documents(text: str | bytes, expected: list[object]) -> None:
    assert values(text) == expected


TAB = "f:2: is not valid YAML: found character that cannot start any token; indent with spaces, not tabs"
MERGE = "f:1: map merge requires map or sequence of maps as the value"


@pytest.mark.parametrize(("text", "expected"), [
    pytest.param("",                      "f: is empty",                                    id="empty"),
    pytest.param("# nothing\n---\n",      "f: is empty",                                    id="comments alone"),
    pytest.param("a: 1\nb: 2\na: 3",      'f:3: the key "a" appears twice',                 id="key twice"),
    pytest.param('{"a": 1,\n"a": 3}',     'f:2: the key "a" appears twice',                 id="json key twice"),
    pytest.param("1: a\n'1': b",          'f:2: the key "1" appears twice',                 id="twice as text"),
    pytest.param("a:\n\tb: 1",            TAB,                                              id="tab"),
    pytest.param("a: b: c",               "f:1: is not valid YAML: mapping values are not", id="two colons"),
    pytest.param("a: [",                  "f:1: is not valid YAML: did not find expected",  id="end too early"),
    pytest.param('{"a": 1,\n"b": 2,,\n}', "f:2: is not valid JSON: Expecting property name", id="bad json"),
    pytest.param("a: *x",                 'f:1: anchor "x" is not known here',              id="unknown anchor"),
    pytest.param("a: &x [*x]",            'f:1: anchor "x" value contains itself',          id="own anchor"),
    pytest.param("a: {<<: 5}",            MERGE,                                            id="merge"),
    pytest.param("a: .inf",               "f:1: .inf has no JSON form",                     id="infinity"),
    pytest.param("a: !!int x",            'f:1: cannot decode "x" as a !!int',              id="wrong tag"),
    pytest.param("~: a",                  "f:1: null cannot be a key",                      id="null key"),
    pytest.param("? [a]\n: b",            "f:1: a list cannot be a key",                    id="list key"),
    pytest.param(b"a: 1\nb: \xff",        "f:2: is not text: byte 0xff is not UTF-8",       id="not utf-8"),
    pytest.param("a: 1".encode("utf-16"), "f:1: is not text: byte 0xff is not UTF-8",       id="utf-16"),
    pytest.param("a: 1\nb: \x00",         "f:2: is not text: control characters",           id="nul"),
    pytest.param("a: \ud800",             "f:1: is not text: byte 0xed",                    id="surrogate"),
    pytest.param("[" * 100_000,           "f:1: is nested more than 500 levels deep",                    id="deep json"),
    pytest.param("- " * 100_000,          "f:1: is nested more than 500 levels deep",                    id="deep yaml"),
    pytest.param("{a: " * 100_000,        "f:1: is nested more than 500 levels deep",                    id="deep flow"),
    pytest.param("{}" * 1_000_000,        "f: holds more than 100,000 documents",            id="many documents"),
])  # fmt: skip
def test_what_cannot_be_read_is_told_in_one_sentence(text: str | bytes, expected: str) -> None:
    assert complaint(text).startswith(expected)


@pytest.mark.parametrize("text", [
    pytest.param(os.urandom(MEGABYTES),             id="random bytes"),
    pytest.param(b"\x00" * MEGABYTES,               id="nul bytes"),
    pytest.param(b"\n" * MEGABYTES,                 id="empty lines"),
    pytest.param(b'"' * (MEGABYTES + 1),            id="open quote"),
    pytest.param(b"- \n" * (MEGABYTES // 3),        id="empty items"),
    pytest.param(b"a: b\n" * (MEGABYTES // 5),      id="one key again and again"),
])  # fmt: skip
def test_garbage_of_ten_megabytes_is_refused(text: bytes) -> None:
    complaint(text)


def test_billion_laughs() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 20)]
    assert "document contains excessive aliasing" in complaint("\n".join(lines))


YAML = """\
# comment
a: 1
b:
- x
- y: 2
  z: {q: 1,
    r: 2}
---
---
on: 3
c: [1,
  2]
"""
JSON = '{"a": 1,\n "b": [{"c": {}},\n  {"c":\n   {"d/e": 1}}]}\n{"x":\n 1}'


@pytest.mark.parametrize(("text", "index", "steps", "line"), [
    (YAML, 0, (),                     2),
    (YAML, 0, ("a",),                 2),
    (YAML, 0, ("b",),                 3),
    (YAML, 0, ("b", 0),               4),
    (YAML, 0, ("b", 1),               5),
    (YAML, 0, ("b", 1, "z"),          6),
    (YAML, 0, ("b", 1, "z", "r"),     7),
    (YAML, 0, ("b", 1, "z", "none"),  6),
    (YAML, 0, ("b", 9),               3),
    (YAML, 0, ("a", "inside"),        2),
    (YAML, 1, ("true",),             10),
    (YAML, 1, ("c", 1),              12),
    (JSON, 0, ("b",),                 2),
    (JSON, 0, ("b", 1),               3),
    (JSON, 0, ("b", 1, "c", "d/e"),   4),
    (JSON, 1, ("x",),                 5),
])  # fmt: skip
def test_line(text: str, index: int, steps: tuple[str | int, ...], line: int) -> None:
    assert read_documents(text, "f")[index].line(steps) == line


def test_a_document_without_text_has_no_lines() -> None:
    assert Document({"a": 1}).line(("a",)) is None


def test_an_error_names_file_line_and_field() -> None:
    document = read_documents(JSON, "f.json")[0]
    error = document.error(("b", 1, "c", "d/e"), "is wrong", "mend it")
    assert str(error) == "f.json:4: b[1].c[d/e]: is wrong; mend it"


@pytest.mark.parametrize(("steps", "expected"), [
    ((),                                                       ""),
    (("cpus", 3, "numa"),                                      "cpus[3].numa"),
    (("spec", "containers", 0, "resources", "limits", "cpu"),  "spec.containers[0].resources.limits[cpu]"),
    (("devices", "nvidia.com/gpu", "devices", 0, "id"),        "devices[nvidia.com/gpu].devices[0].id"),
    (("a", "x" * 200),                                         f"a.{'x' * 90}…{'x' * 15} (200 characters)"),
])  # fmt: skip
def test_field_name(steps: tuple[str | int, ...], expected: str) -> None:
    assert field_name(steps) == expected


@pytest.mark.parametrize(("value", "expected"), [
    (2,         "2"),
    (2.0,       "2"),
    (0.5,       "0.5"),
    (1e9,       "1000000000"),
    (1e20,      "100000000000000000000"),
    (1e21,      "1e+21"),
    (1e-6,      "0.000001"),
    (1e-7,      "1e-7"),
    (2**63 - 1, "9223372036854775807"),
    (2**63,     "9223372036854776000"),
])  # fmt: skip
def test_a_number_goes_through_json_as_in_go(value: float, expected: str) -> None:
    assert number_text(value) == expected


@pytest.mark.parametrize(("value", "expected"), [
    ("a\nb",      '"a\\nb"'),
    ("é",         '"é"'),
    ("x" * 150,   f'"{"x" * 90}…{"x" * 15}" (150 characters)'),
    ({},          "a mapping"),
    ([1],         "a list"),
    (None,        "null"),
    (True,        "true"),
    (10**100,     "a number of more than 38 digits"),
])  # fmt: skip
def test_shown(value: object, expected: str) -> None:
    assert shown(value) == expected


def test_suggestion() -> None:
    assert suggestion("Limit", ("limits", "requests")) == 'did you mean "limits"?'
    assert suggestion("foo", ("limits", "requests")) == "known are limits, requests"


def test_read_file(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("a: 1\n")
    (document,) = read_file(path)
    assert (document.value, document.file) == ({"a": 1}, str(path))


@pytest.mark.parametrize(("name", "expected"), [
    ("missing.yaml", "there is no such file; check the path"),
    ("",             "is a directory; name the files inside it"),
    ("a\0b",         "cannot be read: embedded null byte; check the path"),
])  # fmt: skip
def test_what_is_no_file(tmp_path: Path, name: str, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        read_file(tmp_path / name)
    assert str(caught.value) == f"{tmp_path / name}: {expected}"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("a: 1\n")
    path.chmod(0)
    with pytest.raises(InputError, match="may not be read; check its permissions"):
        read_file(path)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no /dev/zero here")
def test_a_file_without_end() -> None:
    with pytest.raises(InputError, match="/dev/zero: is larger than 64 MiB; split it"):
        read_file("/dev/zero")


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a: 1\n---\nb: [")))
    with pytest.raises(InputError, match=r"^<stdin>:3: is not valid YAML: did not find"):
        read_file("-")


def test_large_json_is_read_as_json() -> None:
    value = [{"name": f"pod-{i}", "n": i, "list": [1, 2.5, None, True]} for i in range(20_000)]
    assert values(json.dumps(value)) == [value]
