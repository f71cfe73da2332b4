"""When a drift is news: hours pass in here without a clock."""

import pytest

from numawise.apps.agent.drift_book import LONGEST_REST, DriftBook, DriftKey, SeenDrift
from numawise.results.finding import Finding, Severity

KEY = DriftKey("uid", "c", "id", "cpuset-changed")
FINDING = Finding("cpuset-changed", Severity.ERROR, "container c may run outside CPUs 2-3")


def play(looks: str, wait: float = 2.0) -> str:
    """``0x 5x 8.``: at 0 and 5 seconds a look shows the drift, at 8 it does not; ``y``: by another grant,
    ``-``: the container is not there, ``p``: a look for other things.  The answer has the times at which it
    rose (``+``, ``~`` when it is not to be reported again yet) and went (``!``)."""
    book = DriftBook()
    told = []
    for word in looks.split():
        now, what = float(word[:-1]), word[-1]
        seen = {KEY: SeenDrift(FINDING, what, wait)} if what in "xy" else {}
        codes = ["memory-remote"] if what == "p" else ["cpuset-changed"]
        risen, gone = book.look(now, seen, codes, () if what == "-" else ("id",))
        told += [f"{word[:-1]}{'~' if one.quiet else '+'}" for one in risen]
        told += [f"{word[:-1]}!" for _ in gone]
    return " ".join(told)


@pytest.mark.parametrize(("looks", "expected"), [
    pytest.param("0x",                      "",              id="one look is none"),
    pytest.param("0x 1x",                   "",              id="too soon"),
    pytest.param("0x 1x 2x 3x 9x",          "2+",            id="once"),
    pytest.param("0x 5. 6x 7. 8x 9.",       "",              id="between two states"),
    pytest.param("0x 5x 10.",               "5+ 10!",        id="gone"),
    pytest.param("0x 5x 10. 100x 105x",     "5+ 10! 105+",   id="again"),
    pytest.param("0x 5x 10. 20x 25x",       "5+ 10! 25~",    id="again too soon"),
    pytest.param("0x 5x 10. 100x 105x 110. 200x 205x", "5+ 10! 105+ 110! 205~", id="ever more rarely"),
    pytest.param("0x 1y 2x 3y 4y 5y",       "5+",            id="another grant begins anew"),
    pytest.param("0x 5x 6y 7y",             "5+",            id="it goes on by another grant"),
    pytest.param("0x 5x 6- 7.",             "5+",            id="the container is gone"),
    pytest.param("0x 1- 5x",                "",              id="made again"),
    pytest.param("0x 5x 6p 7p 8x 9.",       "5+ 9!",         id="a look for other things"),
])  # fmt: skip
def test_what_is_news(looks: str, expected: str) -> None:
    assert play(looks) == expected


def test_the_kubelet_has_its_period() -> None:
    assert play("0x 5x 11x 12x 15x", wait=12.0) == "12+"


def test_what_stands_and_what_waits() -> None:
    book = DriftBook()
    seen = {KEY: SeenDrift(FINDING, "x", 2.0)}
    book.look(0, seen, ["cpuset-changed"], ["id"])
    assert book.waiting()
    assert list(book.standing()) == []
    book.look(2, seen, ["cpuset-changed"], ["id"])
    assert not book.waiting()
    assert list(book.standing()) == [(KEY, FINDING)]


def test_a_thousand_flaps_are_a_few_reports() -> None:
    looks = " ".join(f"{at}x {at + 3}x {at + 6}." for at in range(0, 36_000, 10))
    assert 5 < play(looks).count("+") < 20 + 36_000 / LONGEST_REST
