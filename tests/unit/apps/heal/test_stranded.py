"""Pods that were let go to nodes which filled up."""

from typing import Any

from numawise.apps.heal.refused import STEERED
from numawise.apps.heal.stranded import PATIENCE, StrandedPods, stranded_note
from tests.unit.apps.heal.pods import held, pod


def going(name: str = "p") -> dict[str, Any]:
    value = pod(name, phase="Pending", node="")
    value["metadata"]["annotations"] = {STEERED: "n1,n2"}
    return value


def test_a_pod_is_told_once_after_a_while() -> None:
    stranded, pods = StrandedPods(), {"p": going()}
    assert stranded.look(pods, lambda _: False, 0.0) == []
    assert stranded.look(pods, lambda _: False, PATIENCE) == [pods["p"]]
    assert stranded.look(pods, lambda _: False, PATIENCE + 1) == []
    assert stranded.count == 1
    assert stranded.look({}, lambda _: False, PATIENCE + 2) == []
    assert stranded.count == 0


def test_room_gates_and_others_are_no_news() -> None:
    gated = held("g")
    gated["metadata"]["annotations"] = {STEERED: "n1"}
    pods = {"p": going(), "g": gated, "o": pod("o", phase="Pending", node="")}
    stranded = StrandedPods()
    for now in (0.0, PATIENCE):
        assert stranded.look(pods, lambda _: True, now) == []
    assert [one["metadata"]["name"] for one in stranded.look(pods, lambda _: False, PATIENCE)] == ["p"]


def test_what_people_are_told_is_one_line() -> None:
    value = going()
    value["metadata"]["annotations"][STEERED] = "n1\n\x1b[31m" + "x" * 10_000
    note = stranded_note(value)
    assert "\n" not in note
    assert "\x1b" not in note
    assert len(note) < 600
