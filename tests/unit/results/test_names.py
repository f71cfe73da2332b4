"""Which hold is meant by what a person types, also where somebody wrote down the id and name of another's."""

import pytest

from numawise.results.placement import Grant, Hold, Owner, holds_named

ADA, EVE = 1001, 1002
HERS = Hold("b2345", "train", Owner(ADA, "ada", "", 40, 1), Grant())
FORGED = Hold("b2345", "train", Owner(EVE, "eve", "", 40, 1), Grant())
DECOY = Hold("c2345", "ada/b2345", Owner(EVE, "eve", "", 40, 1), Grant())


@pytest.mark.parametrize(("name", "uid", "meant"), [
    ("train",      ADA, [HERS]),
    ("b2345",      EVE, [FORGED]),
    ("b2345",      0,   [HERS, FORGED]),
    ("ada/b2345",  0,   [HERS]),
    ("1002/b2345", 0,   [FORGED]),
    ("ada/b2345",  EVE, [HERS]),
    ("c2345",      0,   [DECOY]),
    ("eve/train",  0,   []),
])  # fmt: skip
def test_holds_named(name: str, uid: int, meant: list[Hold]) -> None:
    assert holds_named((HERS, FORGED, DECOY), name, uid) == meant
