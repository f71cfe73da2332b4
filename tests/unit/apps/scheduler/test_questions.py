"""What kube-scheduler is answered: nodes, scores, victims, sentences and promises."""

import threading
from typing import Any

import pytest

from numawise.apps.scheduler.questions import NOT_YET, ExtenderSettings, Questions
from numawise.apps.scheduler.refusals import Refusals
from numawise.cluster.live import HOLD, LiveCluster, LiveSettings
from numawise.codec.extender import ExtenderArgs, NodeVictims, PreemptArgs
from tests.unit.cluster.live_objects import api_node, api_pod, published
from tests.unit.cluster.nodes import kubelet


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def asking(
    *names: str,
    live: LiveSettings = LiveSettings(),  # noqa: B008
    settings: ExtenderSettings = ExtenderSettings(),  # noqa: B008
) -> Questions:
    """Questions about nodes with two NUMA nodes of 4 GPUs each."""
    view = LiveCluster(live)
    for name in names:
        view.take_node(name, api_node(name), 0.0)
        view.take_topology(name, published(kubelet(), name), 0.0)
    questions = Questions(view, threading.RLock(), settings, Clock())
    questions.refusals = Refusals(clock=lambda: 0.0)  # time enough for every sentence
    return questions


def args(pod: dict[str, Any], *names: str) -> ExtenderArgs:
    return ExtenderArgs(pod, names)


def bind(questions: Questions, name: str, gpus: int, node: str, **more: Any) -> None:
    questions.view.take_pod(api_pod(name, gpus, node, **more), 1000.0)


def test_nodes_that_would_refuse_are_left_out_with_the_sentence_of_why() -> None:
    questions = asking("a", "b")
    bind(questions, "x", 1, "a")
    bind(questions, "y", 4, "a")  # the other half
    answer = questions.filter(args(api_pod("p", 4), "a", "b"))
    assert answer.names == ("b",)
    assert answer.failed == {
        "a": "TopologyAffinityError, not now (2 pods hold 5 x/gpu): x/gpu: 4 are asked for and 3 are free "
        "(8 in all, 5 in use)"
    }
    assert answer.never == {}
    assert answer.error == ""


def test_a_pod_that_no_state_lets_in_is_for_ever() -> None:
    questions = asking("a", "b")
    answer = questions.filter(args(api_pod("p", 5), "a", "b"))
    assert answer.names == ()
    assert answer.failed == {}
    assert set(answer.never) == {"a", "b"}
    assert "never on this machine as configured, even idle" in answer.never["a"]
    assert questions.counts.no_node == 1


def test_one_node_left_is_promised() -> None:
    questions = asking("a", "b")
    bind(questions, "x", 1, "a")
    bind(questions, "y", 4, "a")
    questions.filter(args(api_pod("p", 4), "a", "b"))
    assert questions.view.promises["p"].node == "b"
    questions.filter(args(api_pod("q", 4), "a", "b"))
    assert questions.view.promises["q"].node == "b"
    assert questions.filter(args(api_pod("r", 4), "a", "b")).names == ()


def test_a_promise_never_stands_in_its_own_way() -> None:
    questions = asking("a")
    for _ in range(3):
        for name in ("p", "q"):
            assert questions.filter(args(api_pod(name, 4), "a")).names == ("a",)
    assert questions.filter(args(api_pod("r", 4), "a")).names == ()


def test_the_best_node_alone_has_ten_and_is_promised() -> None:
    questions = asking("a", "b", "c")
    bind(questions, "big", 4, "a")
    bind(questions, "small", 1, "b")
    scores = questions.prioritize(args(api_pod("p", 1), "a", "b", "c"))
    assert scores["b"] == 10  # where a half is broken already
    assert sorted(scores.values()) == [9, 9, 10]
    assert questions.view.promises["p"].node == "b"


def test_equal_nodes_have_equal_scores_but_for_the_best() -> None:
    questions = asking("a", "b", "c")
    scores = questions.prioritize(args(api_pod("p", 1), "a", "b", "c"))
    assert scores == {"a": 10, "b": 9, "c": 9}
    scores = questions.prioritize(args(api_pod("q", 1), "a", "b", "c"))
    assert scores == {"a": 10, "b": 9, "c": 9}  # beside the one that was promised
    bind(questions, "big", 3, "c")
    scores = questions.prioritize(args(api_pod("r", 1), "a", "b", "c"))
    assert scores == {"c": 10, "a": 9, "b": 8}


def test_pods_without_anything_of_their_own_are_left_to_the_stock_scheduler() -> None:
    questions = asking("a", "b")
    pod = api_pod("p", 0)
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m"}}
    assert questions.filter(args(pod, "a", "b")).names == ("a", "b")
    assert questions.prioritize(args(pod, "a", "b")) == {"a": 0, "b": 0}
    assert not questions.view.promises


def test_nodes_that_publish_nothing() -> None:
    questions = asking("a")
    assert questions.filter(args(api_pod("p", 1), "a", "other")).names == ("a", "other")
    assert questions.prioritize(args(api_pod("p", 1), "a", "other"))["a"] == 10
    held = asking("a", live=LiveSettings(unpublished=HOLD))
    answer = held.filter(args(api_pod("p", 1), "a", "other"))
    assert answer.names == ("a",)
    assert answer.failed == {"other": "nothing is published about this node"}
    assert held.view.promises["p"].node == "a"
    assert questions.filter(args(api_pod("q", 1), "other")).names == ("other",)
    assert "q" not in questions.view.promises  # nothing is known of it


def test_a_place_that_is_kept_for_somebody_is_said_so() -> None:
    questions = asking("a", live=LiveSettings(patience=100.0))
    bind(questions, "x", 3, "a")
    bind(questions, "y", 3, "a")
    waiting = api_pod("w", 4)
    created = questions.view.reading.read(waiting).created
    questions.clock.now = created + 50.0  # type: ignore[attr-defined]
    questions.view.take_pod(waiting, created)
    assert questions.filter(args(waiting, "a")).names == ()
    assert questions.filter(args(api_pod("v", 1, created="2026-11-16T10:00:01Z"), "a")).names == ("a",)
    questions.view.withdraw("v")
    questions.clock.now = created + 200.0  # type: ignore[attr-defined]
    answer = questions.filter(args(api_pod("v", 1, created="2026-11-16T10:00:01Z"), "a"))
    assert answer.failed == {"a": "kept for pod default/w, which has waited longer"}
    assert questions.counts.kept == 1


@pytest.mark.parametrize("way", ["pass", "hold"])
def test_a_pod_that_cannot_be_read(way: str) -> None:
    questions = asking("a", settings=ExtenderSettings(unreadable=way))
    pod = {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "x"}}}]},
    }
    answer = questions.filter(args(pod, "a"))
    assert answer.names == (("a",) if way == "pass" else ())
    assert all("cannot be read" in words and len(words) <= 200 for words in answer.failed.values())
    assert questions.prioritize(args(pod, "a")) == {"a": 0}
    assert questions.counts.unreadable == 1
    victims = {"a": NodeVictims(("x",))}
    assert questions.preempt(PreemptArgs(pod, victims)) == (victims if way == "pass" else {})


@pytest.mark.parametrize("way", ["pass", "hold"])
def test_before_the_cluster_was_read(way: str) -> None:
    questions = asking("a", settings=ExtenderSettings(unpublished=way))
    answer = questions.filter(args(api_pod("p", 1), "a"), synced=False)
    assert answer.names == (("a",) if way == "pass" else ())
    assert answer.failed == ({} if way == "pass" else {"a": NOT_YET})


# --- preempt ----------------------------------------------------------------------------------


def test_nodes_are_kept_where_ending_the_victims_helps() -> None:
    questions = asking("a", "b")
    for node in ("a", "b"):
        bind(questions, f"x{node}", 4, node)
        bind(questions, f"y{node}", 1, node)
    victims = {"a": NodeVictims(("xa",), 1), "b": NodeVictims(("yb",))}
    assert questions.preempt(PreemptArgs(api_pod("p", 4), victims)) == victims
    bind(questions, "zb", 1, "b")
    assert questions.preempt(PreemptArgs(api_pod("p", 4), victims)) == {"a": victims["a"]}


def test_unknown_nodes_are_left_as_they_are_or_held_back() -> None:
    victims = {"other": NodeVictims(("u",))}
    for way, kept in (("pass", victims), ("hold", {})):
        questions = asking("a", live=LiveSettings(unpublished=way), settings=ExtenderSettings(way))
        assert questions.preempt(PreemptArgs(api_pod("p", 4), victims)) == kept


# --- sentences --------------------------------------------------------------------------------


def test_many_different_sentences_become_what_nodes_have_in_common() -> None:
    names = [f"n{number}" for number in range(6)]
    questions = asking(*names)
    for number, name in enumerate(names):
        bind(questions, f"x{name}", 4, name)
        bind(questions, f"y{name}", 1 if number % 2 else 2, name, cpu=str(1 + number % 3))
    few = questions.filter(args(api_pod("p", 4), *names[:2]))
    assert len(set(few.failed.values())) == 2
    many = questions.filter(args(api_pod("p", 4), *names))
    assert set(many.failed) == set(names)
    assert len(set(many.failed.values())) <= 4
    assert all(len(words) <= 200 for words in many.failed.values())


def test_without_time_the_reason_is_given_and_the_next_question_knows_more() -> None:
    questions = asking("a", "b")
    for node, cpu in (("a", "1"), ("b", "2")):
        bind(questions, f"x{node}", 2, node, cpu=cpu)
        bind(questions, f"y{node}", 3, node, cpu=cpu)
    times = iter([0.0, 0.0, 99.0, 100.0, 100.0, 100.0])
    questions.refusals = Refusals(clock=lambda: next(times), budget=1.0)
    first = questions.filter(args(api_pod("p", 3, cpu="2"), "a", "b")).failed
    assert "TopologyAffinityError, not now" in first["a"]
    assert first["b"] == "TopologyAffinityError"
    second = questions.filter(args(api_pod("p", 3, cpu="2"), "a", "b")).failed
    assert second["a"] == first["a"]
    assert "TopologyAffinityError, not now" in second["b"]
