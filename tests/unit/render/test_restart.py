"""A plan of restarts in words."""

from numawise.render.restart import restart_notes, restart_rows, restart_sentence
from numawise.results.cluster import PodShape
from numawise.results.restart import RestartPlan, RestartSearch, RestartStep
from numawise.sets import NumaSet
from numawise.values import replace

STEP = RestartStep("team", "web-1", "u1", "ReplicaSet web", 0, PodShape("2 gpu, 1 cpu"), "n0", "n1")
JOB = RestartStep("default", "job-1", "u2", "Job job", 5, PodShape("1 gpu"), "n0", "n0")
PLAN = RestartPlan("default", "train", "n0", NumaSet(2), (STEP, JOB))


def test_a_plan() -> None:
    search = RestartSearch(PLAN, complete=True, most=4)
    assert restart_sentence(search) == (
        "It is let in on node n0 (NUMA 1) once 2 pods have been restarted: team/web-1 and job-1"
    )
    assert restart_rows(PLAN) == [
        ["team/web-1", "ReplicaSet web", "0", "2 gpu, 1 cpu", "n0", "n1"],
        ["job-1", "Job job", "5", "1 gpu", "n0", "n0 again"],
    ]
    assert "job-1 loses what was done so far" in restart_notes(search)[1]


def test_not_all_was_tried() -> None:
    search = RestartSearch(replace(PLAN, steps=(STEP,), smallest=False), complete=False, most=4)
    assert restart_sentence(search).endswith(
        "once 1 pod has been restarted: team/web-1; fewer may do, as the search ended before all were tried"
    )


def test_no_plan() -> None:
    nothing = RestartSearch(None, complete=True, most=4, fixed={"static": 1, "of a DaemonSet": 3})
    assert restart_sentence(nothing) == (
        "No restart of up to 4 other pods lets it in; 4 pods may not be restarted: 3 of a DaemonSet, 1 static"
    )
    assert "the search ended" in restart_sentence(replace(nothing, complete=False))
    assert restart_notes(nothing) == []
    assert restart_sentence(RestartSearch(replace(PLAN, steps=()), complete=True, most=4)) == (
        "It is let in on node n0 (NUMA 1) as it is"
    )
