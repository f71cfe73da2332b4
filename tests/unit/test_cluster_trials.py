"""The values of ``make e2e-cluster``: what is played, and how it is judged.  The trials themselves need root and Go."""

from typing import Any

import pytest
from e2e.book import PodLine
from e2e.fleet import Job, read_trace, waits_of
from e2e.judged import history
from e2e.mixed import is_right
from e2e.mixed_pods import KINDS, SILENT, counts, kind_of, mixed_pods
from e2e.schedulers import LEAST, MOST, OURS, PLUGINS, SCHEDULERS, configuration


def line(name: str, node: str, judged: int, phase: str, ended: int = 0, *, ran: bool = True) -> PodLine:
    """A pod on which a verdict came, and that ended, at numbers of changes."""
    return PodLine(
        name,
        "default",
        name,
        0.0,
        {},
        node=node,
        judged_order=judged,
        phase=phase,
        ended_order=ended,
        started=float(ran),
    )


def test_history_is_in_the_servers_order_and_a_refused_pod_is_not_removed() -> None:
    lines = [
        line("late", "a", 9, "Running"),
        line("ended", "a", 2, "Succeeded", 7),
        line("refused", "a", 3, "Failed", 4, ran=False),
        line("elsewhere", "b", 1, "Running"),
        line("not-yet", "a", 5, "Pending", ran=False),
    ]
    steps = [(kind, one.name) for kind, one in history("a", lines)]
    assert steps == [("add", "ended"), ("add", "refused"), ("remove", "ended"), ("add", "late")]


def test_nodes_of_all_kinds_add_up_with_the_silent_one() -> None:
    found = counts(200)
    assert sum(found.values()) == 199
    assert set(found) == {kind.name for kind in KINDS}
    assert kind_of("two-12").name == "two"
    assert kind_of("silent") is SILENT


def test_a_seed_gives_the_same_pods() -> None:
    assert mixed_pods(3, 50) == mixed_pods(3, 50)
    assert mixed_pods(3, 50) != mixed_pods(4, 50)


@pytest.mark.parametrize("kind", SCHEDULERS)
def test_every_scheduler_looks_at_all_nodes(kind: str) -> None:
    made = configuration(kind, "kubeconfig", trusted="ca.crt")
    assert made["percentageOfNodesToScore"] == 100
    assert bool(made.get("extenders")) == (kind == OURS)


def test_schedulers_differ_in_what_they_are_compared_for() -> None:
    made = {kind: configuration(kind, "kubeconfig", trusted="ca.crt") for kind in SCHEDULERS}
    strategy = made[MOST]["profiles"][0]["pluginConfig"][0]["args"]["scoringStrategy"]["type"]
    assert strategy == "MostAllocated"
    assert "pluginConfig" not in made[LEAST]["profiles"][0]
    assert made[PLUGINS]["profiles"][0]["plugins"]["multiPoint"]["enabled"]
    assert made[OURS]["extenders"][0]["ignorable"] is True


def test_waits_are_told_by_gpus_and_jobs_that_never_ran_do_not_count() -> None:
    trace = [Job(0, 4, "88", "900Gi", 10, waited=waited) for waited in (0.0, 10.0, 20.0, None)]
    assert waits_of(trace)["4"] == {"jobs": 3, "median": 10.0, "mean": 10.0, "95 %": 20.0}
    assert waits_of(trace)["1"]["jobs"] == 0


def test_a_trace_is_made_up_where_none_is_named() -> None:
    found = read_trace(None, 1)
    assert {job.gpus for job in found} == {1, 2, 4}
    assert found == read_trace(None, 1)


RIGHT: dict[str, Any] = {
    "refused": 0,
    "refused_without_extender": 0,
    "refused_on_silent_node": 0,
    "unpublished": "hold",
    "foreign_pods": 0,
    "schedulers": 1,
    "waiting_although": 0,
    "replayed": {"differences": []},
}


CASES = [
    ({},                                                                 "right"),
    ({"refused": 1},                                                     "wrong"),
    ({"refused": 2, "refused_without_extender": 2},                      "right"),
    ({"refused": 2, "refused_without_extender": 1},                      "wrong"),
    ({"refused": 1, "refused_on_silent_node": 1},                        "wrong"),
    ({"refused": 1, "refused_on_silent_node": 1, "unpublished": "pass"}, "right"),
    ({"refused": 1, "foreign_pods": 5},                                  "right"),
    ({"waiting_although": 1},                                            "wrong"),
    ({"replayed": {"differences": ["a pod"]}},                           "wrong"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "verdict"), CASES)
def test_a_run_is_right_when_nothing_was_refused_that_could_be_known(
    changed: dict[str, Any], verdict: str
) -> None:
    assert is_right(RIGHT | changed) is (verdict == "right")
