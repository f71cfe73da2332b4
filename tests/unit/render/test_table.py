"""Tables: aligned in a pipe, coloured and wrapped on a terminal."""

import io

import pytest

from numawise.render.table import table
from numawise.render.terminal import BOLD, GREEN, styled

Cell = tuple[str, str] | str


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def drawn(
    columns: list[str], rows: list[list[Cell]], out: io.StringIO, *, color: bool | None = None
) -> list[str]:
    table(columns, rows, out, color=color)
    return out.getvalue().split("\n")[:-1]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("COLUMNS", "24")
    monkeypatch.setenv("TERM", "xterm")
    return Terminal()


def test_a_pipe_gets_aligned_text() -> None:
    rows: list[list[Cell]] = [[("admitted", GREEN), "2-5,66-69"], ["x" * 90, "a b"], ["", "[red]x[/red]"]]
    lines = drawn(["VERDICT", "CPUS"], rows, io.StringIO())
    assert [line[92:] for line in lines] == ["CPUS", "2-5,66-69", "a b", "[red]x[/red]"]
    assert "\x1b" not in "".join(lines)


def test_wide_characters_and_those_that_steer_a_terminal() -> None:
    rows: list[list[Cell]] = [["日本", "x"], ["a\nb", "y"], ["\x1b[1m", "z"]]
    assert drawn(["A", "B"], rows, io.StringIO()) == [
        "A        B",
        "日本     x",
        r"a\nb     y",
        r"\x1b[1m  z",
    ]


def test_colours_where_they_are_asked_for() -> None:
    lines = drawn(["A"], [[("yes", GREEN)], ["no"]], io.StringIO(), color=True)
    assert lines == [styled("A", BOLD), styled("yes", GREEN), "no"]


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_no_colours_on_such_a_terminal(
    name: str, value: str, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    assert drawn(["A"], [[("yes", GREEN)]], terminal) == ["A", "yes"]


def test_a_narrow_terminal_wraps_between_words_and_after_commas(terminal: Terminal) -> None:
    rows: list[list[Cell]] = [["pod", "nvidia gpu 0 and gpu 1"], ["other", "0-3,8-11,64-67,72-75"]]
    assert drawn(["NAME", "DEVICES"], rows, terminal, color=False) == [
        "NAME   DEVICES",
        "pod    nvidia gpu 0 and",
        "       gpu 1",
        "other  0-3,8-11,64-67,",
        "       72-75",
    ]


def test_a_word_is_never_cut_though_it_is_too_wide(terminal: Terminal) -> None:
    lines = drawn(["A", "B"], [["x" * 30, "yes"], ["z", "no"]], terminal, color=False)
    assert lines == ["A", "x" * 30, "B  yes", "", "A  z", "B  no"]


def test_the_first_columns_go_above_the_others_as_few_as_will_do(terminal: Terminal) -> None:
    rows: list[list[Cell]] = [["pod-one", "main-container", "admitted", "0-3,8-11"]]
    rows += [["pod-one", "side-container", "admitted", "4"], ["pod-two", "main", "rejected", "-"]]
    assert drawn(["POD", "CONTAINER", "VERDICT", "CPUS"], rows, terminal, color=False) == [
        "POD      CONTAINER",
        "  VERDICT   CPUS",
        "pod-one  main-container",
        "  admitted  0-3,8-11",
        "pod-one  side-container",
        "  admitted  4",
        "pod-two  main",
        "  rejected  -",
    ]


def test_rows_that_share_what_stands_above_say_it_once(terminal: Terminal) -> None:
    rows: list[list[Cell]] = [["the-first-pod", "init", "yes"], ["the-first-pod", "main", "no"]]
    assert drawn(["POD", "CONTAINER", "VERDICT"], rows, terminal, color=False) == [
        "POD",
        "  CONTAINER  VERDICT",
        "the-first-pod",
        "  init       yes",
        "  main       no",
    ]
