"""Turns among namespaces."""

from itertools import islice

import pytest

from numawise.apps.heal.taking_turns import MOST_STEPS, WaitingLines, by_namespace, in_turns


@pytest.mark.parametrize(("items", "expected"), [
    ("",             ""),
    ("a1 a2 a3",     "a1 a2 a3"),
    ("a1 a2 a3 b1",  "a1 b1 a2 a3"),
    ("b1 a1 a2 b2 c1", "b1 a1 c1 b2 a2"),
])  # fmt: skip
def test_one_of_each(items: str, expected: str) -> None:
    lanes = by_namespace(items.split(), lambda item: item[0])
    assert " ".join(in_turns(lanes)) == expected


def lines(most: int = 1000) -> WaitingLines[str]:
    return WaitingLines(lambda item: item[0], most)


def test_a_namespace_has_so_many_steps_in_a_turn() -> None:
    waiting = lines()
    for number in range(MOST_STEPS + 5):
        waiting.add(f"a{number}")
    waiting.add("b")
    waiting.begin_turn()
    taken = list(waiting.take())
    assert taken[:3] == ["a0", "b", "a1"]
    assert len(taken) == MOST_STEPS + 1
    assert list(waiting.take()) == []
    waiting.begin_turn()
    assert list(waiting.take()) == [f"a{number}" for number in range(MOST_STEPS, MOST_STEPS + 5)]


def test_taken_one_by_one_they_take_turns_as_well() -> None:
    waiting = lines()
    for item in ["a1", "a2", "a3", "b1", "b2"]:
        waiting.add(item)
    taken = [item for _ in range(6) for item in islice(waiting.take(), 1)]
    assert taken == ["a1", "b1", "a2", "b2", "a3"]


def test_a_full_line_takes_no_more_and_others_do() -> None:
    waiting = lines(2)
    assert [waiting.add(item) for item in ("a1", "a2", "a3", "b1")] == [True, True, False, True]
    waiting.clear()
    assert list(waiting.take()) == []
    assert waiting.add("a4")
