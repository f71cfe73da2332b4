"""Machines of all kinds get configurations that start and that the linter passes; all of them: ``python -m tests.plan``."""

from pathlib import Path

import pytest

from numawise.rules.versions import NEWEST, Version
from tests.plan import Given, catalogue, judged_machine, machine_from, sources

HERE = Path(__file__).parents[3]
ROOT = HERE.parent
FEW: tuple[Version, ...] = ((1, 24), NEWEST)
EVERY = [*sources(HERE / "machines" / "data"), *sources(ROOT / "examples")]
TREES = [source for source in EVERY if source[0] == "sysfs"]
RECORDED = [source for source in EVERY if source not in TREES] + TREES[::3]  # unpacking takes its time


@pytest.mark.parametrize(("kind", "path"), RECORDED, ids=lambda value: getattr(value, "parent", Path()).name)
def test_recorded_machines(kind: str, path: Path) -> None:
    given = machine_from(kind, path)
    if given is None:
        pytest.skip("too little is known of this machine for a kubelet")
    assert judged_machine(given, FEW).problems == []


@pytest.mark.parametrize("given", list(catalogue()), ids=lambda given: given.name)
def test_known_machines(given: Given) -> None:
    assert judged_machine(given, FEW).problems == []


def test_there_are_machines() -> None:
    assert len(RECORDED) >= 10
