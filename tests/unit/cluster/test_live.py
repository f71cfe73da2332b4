"""A cluster out of objects: published states, pods that are bound, promised, ended or gone."""

from typing import Any

import pytest

from numawise.cluster.kept_places import KeptTerms
from numawise.cluster.live import HOLD, LiveCluster, LiveSettings
from numawise.codec.pod import pod_from
from numawise.codec.publication import NODE_ATTRIBUTE, STATE_ATTRIBUTE
from tests.unit.cluster.live_objects import ALWAYS, api_node, api_pod, published
from tests.unit.cluster.nodes import gpu_pod, kubelet


def cluster(*names: str, settings: LiveSettings = LiveSettings()) -> LiveCluster:  # noqa: B008
    view = LiveCluster(settings)
    for name in names:
        view.take_node(name, api_node(name), 0.0)
        view.take_topology(name, published(kubelet(), name), 0.0)
    return view


def takers(view: LiveCluster, gpus: int, now: float = 0.0) -> list[str]:
    verdicts = view.judge(gpu_pod("probe", gpus), None, now)
    return [verdict.node for verdict in verdicts if verdict.rating is not None]


def test_bound_pods_count_before_they_are_published() -> None:
    view = cluster("a", "b")
    assert takers(view, 4) == ["a", "b"]
    view.take_pod(api_pod("x", 4, "a"), 1.0)
    view.take_pod(api_pod("y", 2, "a", 2), 1.0)
    assert takers(view, 4) == ["b"]
    assert takers(view, 2) == ["a", "b"]
    view.take_pod(api_pod("y", 2, "a", 3, phase="Succeeded"), 2.0)
    assert takers(view, 4) == ["a", "b"]
    view.take_pod(api_pod("x", 4, "a"), 3.0, gone=True)
    assert takers(view, 4) == ["a", "b"]


def test_a_bound_pod_that_waits_for_another_size_counts_with_what_it_has() -> None:
    """On the way to what it asks for, and where its kubelet says no to that."""
    view = cluster("a")
    row = {"name": "c", "state": {"running": {}}, "allocatedResources": {"cpu": "1", "memory": "1Gi"}}
    waits = {"containerStatuses": [row], "conditions": [{"type": "PodResizePending", "status": "True"}]}
    requests = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "13500m", "memory": "1Gi"}}}]}
    view.take_pod(api_pod("x", node="a", spec=requests, phase="Running", **waits), 1.0)
    assert takers(view, 4) == ["a"]
    view.take_pod(api_pod("x", node="a", version=2, spec=requests, phase="Running"), 2.0)
    assert takers(view, 4) == []


def test_a_pod_that_was_deleted_and_stopped_holds_nothing() -> None:
    view = cluster("a")
    leaving = api_pod(
        "x", 4, "a", phase="Running", containerStatuses=[{"name": "c", "state": {"running": {}}}]
    )
    leaving["metadata"]["deletionTimestamp"] = "2026-11-16T10:00:00Z"
    view.take_pod(api_pod("y", 2, "a"), 1.0)
    view.take_pod(leaving, 1.0)
    assert takers(view, 4) == []
    stopped = api_pod(
        "x", 4, "a", 2, phase="Running", containerStatuses=[{"name": "c", "state": {"terminated": {}}}]
    )
    stopped["metadata"]["deletionTimestamp"] = "2026-11-16T10:00:00Z"
    view.take_pod(stopped, 2.0)
    assert takers(view, 4) == ["a"]


def test_a_published_pod_that_went_is_taken_out_of_a_late_object() -> None:
    node = kubelet()
    raw = gpu_pod("x", 4)
    node.admit(node.requested(raw))
    view = cluster("a")
    late = published(node, "a")
    view.take_pod(api_pod("x", 4, "a"), 1.0)
    view.take_pod(api_pod("x", 4, "a"), 2.0, gone=True)
    view.take_topology("a", late, 3.0)
    view.take_pod(api_pod("y", 4, "a"), 4.0)
    assert takers(view, 4) == ["a"]


def test_what_a_pod_has_that_was_removed_by_force_is_held_until_it_is_published_free() -> None:
    node = kubelet()
    for name in ("x", "y"):
        node.admit(node.requested(gpu_pod(name, 4)))
    view = cluster("a")
    view.take_topology("a", published(node, "a"), 1.0)
    for name in ("x", "y"):
        view.take_pod(api_pod(name, 4, "a", phase="Running"), 1.0)
    view.take_pod(api_pod("x", 4, "a", phase="Running"), 2.0, gone=True)
    assert takers(view, 4) == []
    node.remove("x")
    view.take_topology("a", published(node, "a"), 3.0)
    assert takers(view, 4) == ["a"]
    view.take_pod(api_pod("y", 4, "a", 5, phase="Succeeded"), 4.0)
    view.take_pod(api_pod("y", 4, "a", 5, phase="Succeeded"), 5.0, gone=True)
    assert takers(view, 4) == ["a"]


def test_a_promise_that_is_kept_changes_no_answer() -> None:
    view = cluster("a", "b")
    view.take_pod(api_pod("y", 4, "a"), 0.0)
    value = api_pod("x", 4)
    raw = view.reading.read(value).raw
    assert raw is not None
    view.promise(raw, "a", 1.0)
    assert takers(view, 4) == ["b"]
    member = view.views["a"].member
    assert member is not None
    changes, state = member.changes, member.node.state
    view.take_pod(api_pod("x", 4, "a", 2), 2.0)
    view.take_pod(api_pod("x", 4, "a", 3, phase="Running"), 2.0)
    assert takers(view, 4) == ["b"]
    assert (member.changes, member.node.state) == (changes, state)
    assert list(member.occupants) == ["y", "x"]


def test_the_first_of_equals_is_that_of_their_order() -> None:
    view = cluster("a", "b", "c", "d")
    for number, name in enumerate(("b", "c", "c")):
        view.take_pod(api_pod(f"x{number}", 1, name, number + 1), 1.0)
    for gpus in (1, 2, 4):
        ranked = view.ranked(view.judge(gpu_pod("probe", gpus), None, 1.0))
        best = [one for one in ranked if one.rating == ranked[0].rating]
        assert view.first(sorted(best, key=lambda one: one.node)) is ranked[0]
        assert view.first(best[::-1]) is ranked[0]


def test_a_pod_of_thousands_of_containers_is_no_shape() -> None:
    view, value = cluster("a"), api_pod("many", 1)
    value["spec"]["containers"] += [{"name": f"c{number}"} for number in range(2_000)]
    view.take_pod(value, 1.0)
    assert not view.shapes.known
    view.take_pod(api_pod("few", 1), 1.0)
    assert len(view.shapes.known) == 1


def test_promises_are_bound_elsewhere_withdrawn_or_expire() -> None:
    view = cluster("a", "b")
    for number in range(2):
        view.promise(gpu_pod(f"p{number}", 4), "a", 0.0)
    assert takers(view, 4) == ["b"]
    view.take_pod(api_pod("p0", 4, "b"), 1.0)
    assert takers(view, 4, 1.0) == ["a", "b"]
    view.promise(gpu_pod("p2", 4), "a", 2.0)
    assert takers(view, 4, 2.0) == ["b"]
    view.withdraw("p2")
    assert takers(view, 4, 2.0) == ["a", "b"]
    view.promise(gpu_pod("p3", 4), "a", 2.0)
    assert takers(view, 4, -50.0) == ["b"]  # the clock was set back
    assert takers(view, 4, -15.0) == ["a", "b"]  # p1 is not seen for thirty seconds
    assert takers(view, 4, 0.0) == ["a", "b"]


def test_nothing_published_is_passed_or_held() -> None:
    for settings, passing in ((LiveSettings(), ["a"]), (LiveSettings(unpublished=HOLD), [])):
        view = LiveCluster(settings)
        view.take_node("a", api_node("a"), 0.0)
        assert takers(view, 4) == passing
        assert view.judge(gpu_pod("probe", 0, cpu="500m", memory="1Gi"), None, 0.0)[0].how == "unknown"
        assert view.problems("a") == ("nothing is published about this node",)
        assert view.situation("a", 0.0) is None


def test_an_object_of_another_node_counts_for_nothing() -> None:
    view = LiveCluster()
    view.take_topology("a", published(kubelet(), "b"), 0.0)
    assert view.problems("a") == ("its NodeResourceTopology is not used: it is the state of node 'b'",)
    assert view.how("a") == "unknown"


def test_labels_and_taints_come_from_the_node() -> None:
    view = cluster("a", "b")
    view.take_node("b", api_node("b", spec={"taints": [{"key": "x", "effect": "NoSchedule"}]}), 1.0)
    assert takers(view, 1) == ["a"]
    chosen = gpu_pod(
        "s", 1, nodeSelector={"kubernetes.io/hostname": "b"}, tolerations=[{"operator": "Exists"}]
    )
    assert [verdict.reason for verdict in view.judge(chosen, None, 1.0)] == ["NodeAffinity", ""]


BORN = 1_763_287_200.0
"""2025-11-16T10:00:00Z, as seconds."""
WHEN = "2025-11-16T10:00:00Z"


def full_of_jobs(restart: str) -> LiveCluster:
    """A node with a half in the hands of for-ever, and three small pods on the other."""
    view = cluster("a", settings=LiveSettings(patience=60.0))
    view.take_pod(api_pod("for-ever", 4, "a", 2, restart=ALWAYS), BORN)
    for number in range(3):
        view.take_pod(api_pod(f"small-{number}", 1, "a", 3 + number, restart=restart), BORN)
    return view


def asked(view: LiveCluster, value: dict[str, object], now: float) -> tuple[bool, str]:
    (verdict,) = view.ask(pod_from(value), None, now)
    return verdict.rating is not None, verdict.kept


def test_a_place_is_kept_for_a_pod_that_waits_longer_than_the_patience() -> None:
    view = full_of_jobs("Never")
    large, small = api_pod("large", 4, created=WHEN), api_pod("late", 1, created=WHEN)
    view.take_pod(large, BORN)
    assert asked(view, large, BORN + 10) == (False, "")
    assert asked(view, small, BORN + 20) == (True, "")
    assert asked(view, large, BORN + 70) == (False, "")
    assert asked(view, small, BORN + 71) == (True, "kept for pod default/large, which has waited longer")
    assert asked(view, api_pod("tiny", 0, cpu="500m"), BORN + 71) == (True, "")
    for number in range(3):
        view.take_pod(api_pod(f"small-{number}", 1, "a", 9 + number, phase="Succeeded"), BORN + 80)
    assert asked(view, small, BORN + 81)[1]
    assert asked(view, large, BORN + 82) == (True, "")
    view.promise(pod_from(large), "a", BORN + 82)
    assert asked(view, small, BORN + 83) == (False, "")
    view.take_pod({**large, "spec": {**large["spec"], "nodeName": "a"}}, BORN + 84)
    view.take_pod(api_pod("for-ever", 4, "a", 50, phase="Failed"), BORN + 85)
    assert asked(view, small, BORN + 86) == (True, "")


def test_no_place_is_kept_where_nobody_is_known_to_end_or_nobody_asks() -> None:
    view = full_of_jobs(ALWAYS)
    large, small = api_pod("large", 4, created=WHEN), api_pod("late", 1)
    view.take_pod(large, BORN)
    assert asked(view, large, BORN + 100) == (False, "")
    assert asked(view, small, BORN + 101) == (True, "")
    view = full_of_jobs("Never")
    view.take_pod(large, BORN)  # it waits for something else: a volume, a quota
    assert asked(view, small, BORN + 1000) == (True, "")
    assert asked(view, large, BORN + 1001) == (False, "")
    assert asked(view, small, BORN + 1002)[1]
    assert asked(view, small, BORN + 2000) == (True, "")  # the scheduler asks for it no more
    assert asked(view, large, BORN + 2001) == (False, "")
    view.take_pod(large, BORN + 2002, gone=True)
    assert asked(view, small, BORN + 2003) == (True, "")


def waiting(name: str, namespace: str = "default", priority: int = 0) -> dict[str, Any]:
    value = api_pod(name, 4, created=WHEN, spec={"priority": priority})
    value["metadata"]["namespace"] = namespace
    return value


def closed(view: LiveCluster, now: float, *, priority: int = 0) -> list[str]:
    """The nodes that are kept from a pod that came later."""
    late = pod_from(waiting("late", "others", priority))
    return [verdict.node for verdict in view.judge(late, None, now) if verdict.kept]


def free_halves(count: int, **kept: float) -> LiveCluster:
    """Nodes with one half in the hands of for-ever, and one where no half is free."""
    names = [f"n{number}" for number in range(count)]
    view = cluster("full", *names, settings=LiveSettings(patience=60.0, kept=KeptTerms(**kept)))  # type: ignore[arg-type]
    for number, name in enumerate(["full", "full", *names]):
        view.take_pod(api_pod(f"ever-{number}", 4, name, 2 + number, restart=ALWAYS), BORN)
    return view


def full_halves(view: LiveCluster, names: list[str], until: str = "Pending") -> None:
    """The free halves are in the hands of jobs."""
    for number, name in enumerate(names):
        view.take_pod(api_pod(f"job-{number}", 4, name, 50 + number, phase=until), BORN)


def test_no_place_is_kept_on_a_node_that_the_question_did_not_name() -> None:
    view = free_halves(5)
    for number in range(5):
        pod = waiting(f"w{number}", "tenant")  # its volume is on one node, as the scheduler knows
        view.take_pod(pod, BORN)
        (verdict,) = view.ask(pod_from(pod), ["full"], BORN + 100)
        assert verdict.rating is None
    assert closed(view, BORN + 101) == []


def test_a_place_holds_off_nobody_of_a_higher_priority() -> None:
    view = free_halves(2)
    full_halves(view, ["n0", "n1"])
    pod = waiting("w", priority=100)
    view.take_pod(pod, BORN)
    view.ask(pod_from(pod), ["n0"], BORN + 100)
    view.take_pod(api_pod("job-0", 4, "n0", 90, phase="Succeeded"), BORN + 101)
    assert closed(view, BORN + 102) == ["n0"]
    assert closed(view, BORN + 102, priority=100) == ["n0"]
    assert closed(view, BORN + 102, priority=101) == []
    assert closed(view, BORN + 102, priority=2_000_001_000) == []


def test_of_equals_who_came_first_is_not_held_off() -> None:
    view = free_halves(1)
    full_halves(view, ["n0"])
    older, younger = waiting("older"), waiting("younger")
    older["metadata"]["creationTimestamp"] = "2025-11-16T09:00:00Z"
    view.take_pod(older, BORN)
    view.take_pod(younger, BORN)
    view.ask(pod_from(younger), ["n0"], BORN + 100)
    view.take_pod(api_pod("job-0", 4, "n0", 90, phase="Succeeded"), BORN + 101)
    assert closed(view, BORN + 102) == ["n0"]
    (verdict,) = view.ask(pod_from(older), ["n0"], BORN + 103)
    assert verdict.rating is not None
    assert not verdict.kept


@pytest.mark.parametrize(("places", "expected"), [(0, 0), (1, 1), (3, 3), (8, 5)])
def test_a_namespace_has_so_many_places_at_most(places: int, expected: int) -> None:
    view = free_halves(5, places=places)
    names = [f"n{number}" for number in range(5)]
    full_halves(view, names)
    for number in range(9):
        pod = waiting(f"w{number}", "tenant")
        view.take_pod(pod, BORN)
        view.ask(pod_from(pod), names, BORN + 100)
    full_halves(view, names, "Succeeded")
    assert len(closed(view, BORN + 101)) == expected


def test_a_place_ends_and_the_next_pod_of_the_namespace_does_not_begin_anew() -> None:
    view = free_halves(1, seconds=1000.0)
    full_halves(view, ["n0"])
    ended, gone = api_pod("job-0", 4, "n0", 90, phase="Succeeded"), waiting("a", "tenant")
    for pod in (gone, waiting("b", "tenant")):
        view.take_pod(pod, BORN)

    def asks(now: float) -> None:
        for name in ("a", "b"):
            if name in view.pods:
                view.ask(pod_from(waiting(name, "tenant")), ["n0"], now)

    asks(BORN + 100)
    asks(BORN + 500)
    view.take_pod(gone, BORN + 600, gone=True)  # b takes the place over, with what is left of the time
    asks(BORN + 601)
    asks(BORN + 1000)
    view.take_pod(ended, BORN + 1001)
    assert closed(view, BORN + 1050) == ["n0"]
    assert closed(view, BORN + 1101) == []
    view.take_pod(api_pod("more", 4, "n0", 91), BORN + 1102)
    asks(BORN + 1103)
    view.take_pod(api_pod("more", 4, "n0", 92, phase="Succeeded"), BORN + 1104)
    assert closed(view, BORN + 1105) == []  # not renewed at once
    view.take_pod(api_pod("more2", 4, "n0", 93), BORN + 2060)
    asks(BORN + 2070)
    view.take_pod(api_pod("more2", 4, "n0", 94, phase="Succeeded"), BORN + 2080)
    assert closed(view, BORN + 2090) == []
    assert closed(view, BORN + 2110) == ["n0"]


@pytest.mark.parametrize("change", ["deleted", "bound", "leaving", "gated", "changed"])
def test_a_place_that_is_given_up_is_forgotten_at_once(change: str) -> None:
    view = free_halves(1)
    full_halves(view, ["n0"])
    pod = waiting("w")
    view.take_pod(pod, BORN)
    view.ask(pod_from(pod), ["n0"], BORN + 100)
    view.take_pod(api_pod("job-0", 4, "n0", 90, phase="Succeeded"), BORN + 101)
    assert closed(view, BORN + 102) == ["n0"]
    metadata, spec = pod["metadata"], pod["spec"]
    after = {
        "deleted": pod,
        "bound": {**pod, "spec": {**spec, "nodeName": "full"}},
        "leaving": {**pod, "metadata": {**metadata, "deletionTimestamp": WHEN}},
        "gated": {**pod, "spec": {**spec, "schedulingGates": [{"name": "x"}]}},
        "changed": {**pod, "spec": {**spec, "nodeSelector": {"disk": "fast"}}},
    }[change]
    view.take_pod(after, BORN + 103, gone=change == "deleted")
    assert closed(view, BORN + 104) == []


def test_who_only_looks_keeps_no_place() -> None:
    view = free_halves(1)
    full_halves(view, ["n0"])
    pod = waiting("w")
    view.take_pod(pod, BORN)
    view.judge(pod_from(pod), ["n0"], BORN + 100)  # /capacity, with a pod of that uid in the body
    view.take_pod(api_pod("job-0", 4, "n0", 90, phase="Succeeded"), BORN + 101)
    assert closed(view, BORN + 102) == []


def broken(change: str) -> dict[str, object]:
    value = published(kubelet(), "a")
    for one in value["attributes"]:
        if one["name"] == STATE_ATTRIBUTE:
            one["value"] = {
                "cut": one["value"][:-40],
                "newer": one["value"].replace("v1:", "v9:", 1),
                "huge": one["value"] + "A" * 2_000_000,
                "number": 5,
            }.get(change, one["value"])
    if change == "half":
        value["attributes"] = [one for one in value["attributes"] if one["name"] != NODE_ATTRIBUTE]
    if change == "twice":
        value["attributes"] += [one for one in value["attributes"] if one["name"] == STATE_ATTRIBUTE]
    if change == "zones":
        value = {"metadata": {"name": "a"}, "zones": [{"name": "node-0", "type": "Node", "resources": 5}]}
    if change == "nothing":
        value = {"zones": None, "attributes": {"a": "b"}}
    return value


@pytest.mark.parametrize("change", ["cut", "newer", "huge", "number", "half", "twice", "zones", "nothing"])
def test_a_broken_object_counts_for_nothing_and_says_why(change: str) -> None:
    view = LiveCluster(LiveSettings(unpublished=HOLD))
    view.take_topology("a", broken(change), 0.0)
    (verdict,) = view.judge(gpu_pod("p", 1), None, 0.0)
    assert (verdict.rating, verdict.how) == (None, "unknown")
    (problem,) = view.problems("a")
    assert problem.startswith("its NodeResourceTopology ")
    assert len(problem) < 500
    view.take_topology("a", published(kubelet(), "a"), 1.0)
    assert view.how("a") == "exact"
    assert view.problems("a") == ()


def test_an_old_state_is_no_longer_exact() -> None:
    view = cluster("a")
    view.take_node("a", api_node("a", kubelet="v1.34.1"), 1.0)
    assert view.how("a") == "conservative"
    assert view.problems("a") == ("it is published for kubelet v1.37, and the node runs v1.34.1",)
    view.take_node("a", api_node("a"), 2.0)
    assert view.how("a") == "exact"
    view.take_pod(api_pod("x", 1, "a", created=WHEN, phase="Running"), BORN + 10)
    assert view.how("a") == "exact"
    view.judge(gpu_pod("p", 1), None, BORN + 200)
    assert view.how("a") == "conservative"
    assert "runs for 200 seconds and is not published" in view.problems("a")[0]


def test_what_cannot_be_read_is_a_problem_and_not_a_guess() -> None:
    view = cluster("a")
    value = api_pod("x", 1, "a")
    value["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "many"}}
    view.take_pod(value, 1.0)
    view.take_pod({"metadata": 5, "spec": [], "status": None}, 1.0)
    view.take_node("a", {"metadata": {"name": "a"}, "spec": {"taints": 5}}, 1.0)
    assert view.how("a") == "conservative"
    assert [words.partition(":")[0] for words in view.problems("a")] == [
        "its Node object cannot be read",
        "pod default/x cannot be read",
    ]


def test_a_node_that_is_gone_is_forgotten() -> None:
    view = cluster("a", "b")
    view.take_pod(api_pod("x", 1, "b"), 1.0)
    view.take_pod(api_pod("x", 1, "b"), 1.0, gone=True)
    view.judge(gpu_pod("p", 1), None, 1.0)
    view.take_node("b", None, 2.0)
    view.take_topology("b", None, 2.0)
    assert view.names == ("a",)
    assert [member.name for member in view.members] == ["a"]
    assert view.problems("b") == ("there is no such node",)
