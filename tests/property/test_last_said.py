"""What is remembered of nodes is what they would say now, whatever happened in between."""

import random

import pytest

from numawise.cluster.last_said import MOST_CHANGES, LastSaid
from numawise.cluster.live import LiveCluster
from tests.unit.cluster.live_objects import api_node, api_pod, published
from tests.unit.cluster.nodes import gpu_pod, kubelet

NAMES = ("a", "b", "c", "nobody")


def happen(view: LiveCluster, draw: random.Random, serial: int) -> None:
    """One event of a cluster."""
    node, now = draw.choice(NAMES[:3]), float(serial)
    pods = [uid for uid, pod in view.pods.items() if pod.node]
    match draw.randrange(9):
        case 0 | 1 | 2:
            view.take_pod(api_pod(f"p{serial}", draw.randrange(5), node, serial + 1), now)
        case 3 if pods:
            uid = draw.choice(pods)
            view.take_pod(api_pod(uid, 1, view.pods[uid].node, serial + 1), now, gone=True)
        case 4 if pods:
            uid = draw.choice(pods)
            view.take_pod(api_pod(uid, 1, view.pods[uid].node, serial + 1, phase="Succeeded"), now)
        case 5:
            view.promise(gpu_pod(f"q{serial % 3}", draw.randrange(1, 5)), node, now)
        case 6:
            view.withdraw(f"q{serial % 3}")
        case 7:
            taints = [{"key": "x", "effect": "NoSchedule"}] if draw.random() < 0.5 else []
            view.take_node(
                node, api_node(node, spec={"taints": taints}) if draw.random() < 0.8 else None, now
            )
        case _:
            view.take_topology(node, published(kubelet(), node) if draw.random() < 0.7 else None, now)


@pytest.mark.parametrize("seed", range(12))
def test_what_is_remembered_is_what_is_so(seed: int) -> None:
    draw = random.Random(seed)
    view = LiveCluster()
    for name in NAMES[:3]:
        view.take_node(name, api_node(name), 0.0)
        view.take_topology(name, published(kubelet(), name), 0.0)
    asked = [gpu_pod("one", 1), gpu_pod("four", 4), gpu_pod("shared", 0, cpu="500m"), gpu_pod("port", 2)]
    for serial in range(1, 60):
        happen(view, draw, serial)
        raw = draw.choice(asked)
        names = draw.sample(NAMES, draw.randrange(1, len(NAMES) + 1))
        remembered = view.judge(raw, names, float(serial))
        said = view._said
        kept, said._shapes = said._shapes, {}
        assert view.judge(raw, names, float(serial)) == remembered
        said._shapes = kept


def test_after_too_many_changes_everything_is_worked_out_again() -> None:
    said, asked, basis = LastSaid[str](), [], object()

    def answer(name: str) -> str:
        asked.append(name)
        return name.upper()

    key = ("shape",)
    assert said.of(key, basis, ["a", "b"], answer) == ["A", "B"]
    assert said.of(key, basis, ["b", "a"], answer) == ["B", "A"]
    said.changed("a")
    assert said.of(key, basis, ["a", "b"], answer) == ["A", "B"]
    assert asked == ["a", "b", "a"]
    for _ in range(MOST_CHANGES + 1):
        said.changed("c")
    said.of(key, basis, ["a", "b"], answer)
    assert asked == ["a", "b", "a", "a", "b"]
    said.of(key, object(), ["b"], answer)  # other shapes count
    assert asked[-1] == "b"
    assert len(asked) == 6
