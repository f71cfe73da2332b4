"""A table in a pipe looks the same whether it was drawn or only aligned."""

import io
import random

import pytest

from numawise.render import table as terminal
from numawise.render.table import GREEN, table

CELLS = ["", "-", "admitted", "2-5,66-69", "a b", "[red]x[/red]", ":smile:", "\\", "x" * 200, "  indented"]


def drawn(columns: list[str], rows: list[list[tuple[str, str] | str]]) -> str:
    out = io.StringIO()
    table(columns, rows, out)
    return out.getvalue()


@pytest.mark.parametrize("seed", range(20))
def test_both_ways_give_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    columns = [f"COLUMN{number}"[: chance.randint(0, 7)] for number in range(chance.randint(1, 6))]
    rows: list[list[tuple[str, str] | str]] = [
        [(text, GREEN) if chance.random() < 0.3 else text for text in chance.choices(CELLS, k=len(columns))]
        for _ in range(chance.randint(0, 8))
    ]
    aligned = drawn(columns, rows)
    monkeypatch.setattr(terminal, "_plain", lambda _: False)
    assert aligned == drawn(columns, rows)


def test_what_is_not_plain_is_drawn() -> None:
    rows: list[list[tuple[str, str] | str]] = [["日本", "x"], ["a", "y"], ["one\ntwo", "z"]]
    assert drawn(["A", "B"], rows).splitlines() == ["A     B", "日本  x", "a     y", "one   z", "two"]
