"""JSON as Go writes and refuses it; the complaints below are what Go 1.26 really says."""

import json

import pytest

from numawise.codec import gojson
from tests.unit.build import exactly

END = "unexpected end of JSON input"
VALUE = "looking for beginning of value"
KEY = "looking for beginning of object key string"


@pytest.mark.parametrize(("text", "complaint"), [
    # nothing, or not enough
    ("",                    END),
    (" \t\n",               END),
    ("{",                   END),
    ("[",                   END),
    ('{"a"',                END),
    ('{"a":',               END),
    ('{"a":1',              END),
    ('{"a":1,',             END),
    ('{"a":[1,2',           END),
    ('"abc',                END),
    ('["a',                 END),
    # a value was expected
    ("x",                   f"invalid character 'x' {VALUE}"),
    ("NaN",                 f"invalid character 'N' {VALUE}"),
    ("Infinity",            f"invalid character 'I' {VALUE}"),
    ("+1",                  f"invalid character '+' {VALUE}"),
    (".5",                  f"invalid character '.' {VALUE}"),
    ("'a'",                 rf"invalid character '\'' {VALUE}"),
    ("\\",                  rf"invalid character '\\' {VALUE}"),
    ("\x00",                rf"invalid character '\x00' {VALUE}"),
    ("]",                   f"invalid character ']' {VALUE}"),
    (",",                   f"invalid character ',' {VALUE}"),
    ("[1,]",                f"invalid character ']' {VALUE}"),
    ("[,]",                 f"invalid character ',' {VALUE}"),
    ('{"a":}',              f"invalid character '}}' {VALUE}"),
    # a key was expected
    ("{a:1}",               f"invalid character 'a' {KEY}"),
    ("{1:2}",               f"invalid character '1' {KEY}"),
    ("{,}",                 f"invalid character ',' {KEY}"),
    ('{"a":1,}',            f"invalid character '}}' {KEY}"),
    # something else was expected
    ('{"a"}',               "invalid character '}' after object key"),
    ('{"a" 1}',             "invalid character '1' after object key"),
    ('{"a":1 "b":2}',       "invalid character '\"' after object key:value pair"),
    ('{"a":1]',             "invalid character ']' after object key:value pair"),
    ("[1 2]",               "invalid character '2' after array element"),
    ("[1}",                 "invalid character '}' after array element"),
    ("1 2",                 "invalid character '2' after top-level value"),
    ("{} x",                "invalid character 'x' after top-level value"),
    ('{"a":1}\x00',         r"invalid character '\x00' after top-level value"),
    ("0123",                "invalid character '1' after top-level value"),
    ("[01]",                "invalid character '1' after array element"),
    # numbers, literals, strings
    ("--1",                 "invalid character '-' in numeric literal"),
    ("[-]",                 "invalid character ']' in numeric literal"),
    ("trux",                "invalid character 'x' in literal true (expecting 'e')"),
    ("[nulL]",              "invalid character 'L' in literal null (expecting 'l')"),
    ("[falsy]",             "invalid character 'y' in literal false (expecting 'e')"),
    (r'"\x"',               "invalid character 'x' in string escape code"),
    (r'"\u12g4"',           r"invalid character 'g' in \u hexadecimal character escape"),
    ('"a\tb"',              r"invalid character '\t' in string literal"),
    ('"a\nb"',              r"invalid character '\n' in string literal"),
    ('"\x01"',              r"invalid character '\x01' in string literal"),
])  # fmt: skip
def test_complaints(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=exactly(complaint)):
        gojson.decode(text)
    assert gojson.complaint(text) == complaint


@pytest.mark.parametrize("text", [
    "{}", "[]", "0", "-0", "1.5e-3", "true", "null", '""', ' {"a" : [1, {"b":null}] } ',
    r'"\"\\\/\b\f\n\r\t\u00e9"', '"\x7f\u2028é"', "[[[[]]]]",
])  # fmt: skip
def test_good_json(text: str) -> None:
    assert gojson.decode(text) == json.loads(text)
    assert gojson.complaint(text) == ""


def test_deep_nesting_is_refused_and_not_followed() -> None:
    with pytest.raises(ValueError, match="exceeded max depth"):
        gojson.decode("[" * 200_000)


@pytest.mark.parametrize(("text", "written"), [
    ("plain",            '"plain"'),
    ("",                 '""'),
    ('a"b\\c/',          r'"a\"b\\c/"'),
    ("<a&b>",            r'"\u003ca\u0026b\u003e"'),
    ("\u2028\u2029",     r'"\u2028\u2029"'),
    ("\n\r\t\b\f",       r'"\n\r\t\b\f"'),
    ("\x00\x1f",         r'"\u0000\u001f"'),
    ("\x7fé→\U0001f600", '"\x7fé→\U0001f600"'),
])  # fmt: skip
def test_strings(text: str, written: str) -> None:
    assert gojson.text(text) == written
    assert json.loads(written) == text


@pytest.mark.parametrize(("value", "kind"), [
    (True, "bool"), (1, "number"), (1.5, "number"), ("a", "string"), ([], "array"), ({}, "object"),
])  # fmt: skip
def test_what_go_calls_a_value(value: object, kind: str) -> None:
    assert gojson.kind_of(value) == kind
