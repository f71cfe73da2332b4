"""What terminals, mail, web pages and chats put on a line is taken off, and nothing else."""

import pytest

from numawise.codec.hardware.pasted import expanded, lines


@pytest.mark.parametrize(("text", "expected"), [
    pytest.param("a\tb\r\nc\rd",                 ["a\tb", "c", "d"],       id="line ends"),
    pytest.param("\x1b[4mGPU0\x1b[0m\tGPU1",     ["GPU0\tGPU1"],           id="colours"),
    pytest.param("[4mGPU0[0m",                   ["GPU0"],                 id="colours without escape character"),
    pytest.param("^[[1;32mGPU0^[[0m",            ["GPU0"],                 id="escape character as a caret"),
    pytest.param("\ufffd[4mGPU0\ufffd[0m",       ["GPU0"],                 id="escape character that was no UTF-8"),
    pytest.param(r"\x1b[4mGPU0\033[0m",          ["GPU0"],                 id="escape character written out"),
    pytest.param("[mlx5_0] x[1]m",               ["[mlx5_0] x[1]m"],       id="brackets that are no colours"),
    pytest.param("> a\n>> > b\n>c",              ["a", "b", "c"],          id="mail"),
    pytest.param("# \tGPU0\n//   x\n#",          ["\tGPU0", "  x", ""],    id="comments"),
    pytest.param("```console\na\n~~~",           ["", "a", ""],            id="fences"),
    pytest.param('  "a b",\n  "c"',              ["a b", "c"],             id="a list of strings"),
    pytest.param('"a\\tb\\nc"',                  ['"a\tb', 'c"'],          id="a string literal"),
    pytest.param("0\u201331\u00a0\u200bx\uff1a", ["0-31 x:"],              id="typography"),
    pytest.param("a&nbsp;b &lt;c&gt;<br>d",      ["a b <c>", "d"],         id="HTML"),
    pytest.param("a \u2502 b",                   ["a | b"],                id="boxes"),
    pytest.param("GPU0     X      NV1",          ["GPU0     X      NV1"],  id="blanks tell columns apart"),
])  # fmt: skip
def test_lines(text: str, expected: list[str]) -> None:
    assert lines(text) == expected


@pytest.mark.parametrize("line", ["", "abc", "\t", "a\tb", "\t\tabc\tdefghijk\tl\t", "abcdefgh\tx"])
def test_expanded(line: str) -> None:
    text, where = expanded(line)
    assert text == line.expandtabs(8)
    assert where == [len(line[:at].expandtabs(8)) for at in range(len(line) + 1)]
