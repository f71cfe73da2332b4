"""Numbers, booleans and quoted text as Go's ``strconv`` reads, refuses and writes them."""

import pytest

from numawise.strconv import parse_bool, parse_int, quote
from tests.unit.build import exactly


@pytest.mark.parametrize(("text", "value"), [
    ("0",                     0),
    ("+7",                    7),
    ("-07",                  -7),
    ("9223372036854775807",   2**63 - 1),
    ("-9223372036854775808", -2**63),
])  # fmt: skip
def test_integers(text: str, value: int) -> None:
    assert parse_int(text) == value


@pytest.mark.parametrize(("text", "complaint"), [
    ("",                     "invalid syntax"),
    ("x",                    "invalid syntax"),
    ("1.0",                  "invalid syntax"),
    (" 1",                   "invalid syntax"),
    ("1_000",                "invalid syntax"),
    ("0x10",                 "invalid syntax"),
    ("--1",                  "invalid syntax"),
    ("\u0661",               "invalid syntax"),  # a digit, but not one of Go's
    ("9223372036854775808",  "value out of range"),
    ("-9223372036854775809", "value out of range"),
    ("1" * 5000,             "value out of range"),
])  # fmt: skip
def test_what_is_no_integer(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=exactly(f"strconv.Atoi: parsing {quote(text)}: {complaint}")):
        parse_int(text)


@pytest.mark.parametrize("text", ["1", "t", "T", "TRUE", "true", "True"])
def test_true(text: str) -> None:
    assert parse_bool(text) is True


@pytest.mark.parametrize("text", ["0", "f", "F", "FALSE", "false", "False"])
def test_false(text: str) -> None:
    assert parse_bool(text) is False


@pytest.mark.parametrize("text", ["", "maybe", "yes", "no", "tRUE", "2", " true"])
def test_what_is_no_boolean(text: str) -> None:
    with pytest.raises(
        ValueError, match=exactly(f"strconv.ParseBool: parsing {quote(text)}: invalid syntax")
    ):
        parse_bool(text)


@pytest.mark.parametrize(("text", "quoted"), [
    ("",            '""'),
    ("plain",       '"plain"'),
    ('say "hi"',    r'"say \"hi\""'),
    ("back\\slash", r'"back\\slash"'),
    ("a\tb\nc\r",   r'"a\tb\nc\r"'),
    ("\a\b\f\v",    r'"\a\b\f\v"'),
    ("\x00\x7f",    r'"\x00\x7f"'),
    ("é→",          '"é→"'),
    ("\u2028",      r'"\u2028"'),
    ("\U000e0001",  r'"\U000e0001"'),
])  # fmt: skip
def test_quote(text: str, quoted: str) -> None:
    assert quote(text) == quoted
