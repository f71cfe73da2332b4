"""A pod's amount: all app containers and sidecars, or one init container with the sidecars before it."""

import pytest

from numawise.request.model import most_at_once
from tests.unit.build import pod


@pytest.mark.parametrize(("containers", "most"), [
    ("a=2 b=3",                    5),
    ("init:i=4 a=2",               4),
    ("init:i=1 a=2",               2),
    ("init:i=4 init:j=6 a=2",      6),   # one after the other
    ("sidecar:s=2 a=3",            5),
    ("sidecar:s=2 init:i=4 a=3",   6),   # the sidecar already runs
    ("init:i=4 sidecar:s=2 a=1",   4),   # it does not run yet
    ("sidecar:s=1 init:i=3 sidecar:t=2 init:j=3 a=1", 6),
    ("sidecar:s=1 sidecar:t=2 a=9", 12),
    ("a=0",                        0),
])  # fmt: skip
def test_most_at_once(containers: str, most: int) -> None:
    texts = []
    for word in containers.split():
        name, _, amount = word.replace(":", " ").partition("=")
        texts.append(f"{name} x/y={amount}")
    found = pod("p", *texts)
    assert most_at_once(found.containers, lambda c: dict(c.devices)["x/y"]) == most


def test_of_nothing() -> None:
    assert most_at_once((), lambda _: 1) == 0
