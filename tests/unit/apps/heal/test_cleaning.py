"""Which refused pods may be removed."""

import pytest

from numawise.apps.heal.cleaning import (
    AgedPod,
    Allowance,
    CleaningRules,
    PodSelection,
    PodToRemove,
    removable,
)
from numawise.apps.heal.refused import JOB_TRACKING
from numawise.values import replace
from tests.unit.apps.heal.pods import refused

OLD = 1000.0


def names(pods: list[AgedPod], rules: CleaningRules) -> list[str]:
    return [wish.pod.name for wish in removable(pods, rules)]


def aged(name: str, age: float = OLD, **how: object) -> AgedPod:
    return AgedPod(refused(name, **how), age)


THREE = [aged("a", 3000), aged("b", 2000), aged("c", 1000)]


@pytest.mark.parametrize(("rules", "expected"), [
    pytest.param(CleaningRules(keep=1),                        ["a", "b"],      id="the newest stays"),
    pytest.param(CleaningRules(keep=0),                        ["a", "b", "c"], id="none stays"),
    pytest.param(CleaningRules(keep=9),                        [],              id="fewer than are kept"),
    pytest.param(CleaningRules(keep=0, older_than=2500),       ["a"],           id="old enough"),
    pytest.param(CleaningRules(keep=2, older_than=0),          ["a"],           id="two stay"),
    pytest.param(CleaningRules(keep=0, owners=("Job",)),       [],              id="of another kind"),
    pytest.param(CleaningRules(keep=0, owners=()),             [],              id="of nobody"),
    pytest.param(CleaningRules(keep=0, selection=PodSelection(("other",))), [], id="another namespace"),
    pytest.param(CleaningRules(keep=0, selection=PodSelection((), (("app", "db"),))), [], id="another label"),
])  # fmt: skip
def test_rules(rules: CleaningRules, expected: list[str]) -> None:
    assert names(THREE, rules) == expected


def test_each_owner_and_revision_keeps_its_own() -> None:
    pods = [aged("a", revision="one"), aged("b", revision="two"), aged("c", owner=("ReplicaSet", "u2"))]
    assert names(pods, CleaningRules(keep=1)) == []


def test_pods_without_an_owner_only_when_asked_for() -> None:
    bare = [aged("a", owner=None), aged("b", owner=None)]
    assert names(bare, CleaningRules(keep=0)) == []
    assert names(bare, CleaningRules(keep=0, owners=("Pod",))) == ["a", "b"]
    assert names(bare, CleaningRules(keep=1, owners=("Pod",))) == [], "each stands alone"


def test_what_leaves_or_is_counted_by_a_job_is_left_alone() -> None:
    leaving = AgedPod(replace(refused("a"), leaving=True), OLD)
    counted = AgedPod(replace(refused("b", owner=("Job", "j")), finalizers=(JOB_TRACKING,)), OLD)
    assert names([leaving, counted], CleaningRules(keep=0, owners=("ReplicaSet", "Job"))) == []


def test_no_more_than_so_many_a_minute() -> None:
    wishes = [PodToRemove(refused(f"p{number}"), "") for number in range(10)]
    allowance = Allowance(4)
    assert len(allowance.take(wishes, 0.0)) == 4
    assert len(allowance.take(wishes, 59.0)) == 0
    assert len(allowance.take(wishes, 60.0)) == 4
