"""Values in messages: short, visible, on one line; and no message that forgets it."""

import ast
from pathlib import Path

import pytest

import numawise
from numawise.errors import InputError, NumawiseError, cut, one_line, quoted, visible

SOURCES = Path(numawise.__file__).parent
NOT_MESSAGES = {"values.py", "__init__.py"}
"""They print representations of values for programmers."""


@pytest.mark.parametrize(("value", "expected"), [
    pytest.param("a",                  "'a'",                                        id="text"),
    pytest.param("",                   "''",                                         id="nothing"),
    pytest.param("it's",               '"it\'s"',                                    id="a quote"),
    pytest.param("'\"",                "'\\'\"'",                                    id="both quotes"),
    pytest.param("a\x1b[31m\nb\t",     r"'a\x1b[31m\nb\t'",                          id="escapes"),
    pytest.param("\u202ex\ud800",      r"'\u202ex\ud800'",                           id="directions and halves"),
    pytest.param("\udcff",             r"'\xff'",                                    id="a byte that is not UTF-8"),
    pytest.param("\U000e0041",         r"'\U000e0041'",                              id="what nobody sees"),
    pytest.param("x" * 5000,           f"'{'x' * 90}…{'x' * 15}' (5000 characters)", id="long"),
    pytest.param(7,                    "7",                                          id="a number"),
    pytest.param(10**5000,             "a number of more than 38 digits",            id="a long number"),
    pytest.param(["a\x07"],            r"['a\x07']",                                 id="a list"),
])  # fmt: skip
def test_quoted(value: object, expected: str) -> None:
    assert quoted(value) == expected


def test_visible_leaves_lines_alone() -> None:
    assert visible("a\nb\r") == "a\nb\\r"
    assert one_line("a\nb\r") == r"a\nb\r"
    assert cut("a" * 10, 10) == "a" * 10


def test_every_part_of_an_error_is_cut() -> None:
    long = "x" * 100_000
    error = InputError(long, file=long, line=3, field=long, advice=long)
    assert len(str(error)) < 5000
    assert str(error).count("(100000 characters)") == 4
    assert len(NumawiseError(long).message) < 2000


def test_messages_quote_values_with_the_one_function_for_it() -> None:
    """``{value!r}`` neither cuts a value nor shows what a terminal would obey; ``quoted`` does."""
    places = [
        f"{path.relative_to(SOURCES)}:{node.lineno}"
        for path in sorted(SOURCES.rglob("*.py"))
        if path.name not in NOT_MESSAGES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FormattedValue) and node.conversion == ord("r")
    ]
    assert not places, "use quoted() of numawise.errors"
