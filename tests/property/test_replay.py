"""What happened to a node is played once, and comes out as if it were played again."""

import random

import pytest

from numawise.cluster.assumed import MOST_REMEMBERED, AssumedNode, EndedPod, Promise, Replay, assumed_node
from numawise.codec.cluster_pod import ClusterPod
from numawise.values import replace
from tests.property.lives import CONFIGS, members, some_pod


def some_bound(draw: random.Random, number: int) -> ClusterPod:
    raw = some_pod(draw, f"p{number}")
    order = (2, 0.0, 0.0, number, raw.name)
    runs = draw.random() < 0.2
    return ClusterPod(raw.uid, "default", raw.name, raw, node="a", runs=runs, order=order)


def same(one: AssumedNode, other: AssumedNode) -> bool:
    states = one.node.state == other.node.state and one.node.used() == other.node.used()
    return states and (one.doubts, one.refused) == (other.doubts, other.refused)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: "-".join(map(str, config.values()))[:40])
def test_a_replay_is_what_is_played_from_the_start(config: dict[str, object]) -> None:
    longest = refused = doubted = kept = 0
    for seed in range(3):
        draw = random.Random(seed)
        (member,) = members(config, 1)
        published = member.node
        replay = Replay(published)
        bound: dict[str, ClusterPod] = {}
        ended: dict[str, EndedPod] = {}
        promised: dict[str, Promise] = {}
        before = assumed_node(published, (), (), (), replay)
        for number in range(80):
            act = draw.random()
            if act < 0.4:
                pod = some_bound(draw, number)
                if draw.random() < 0.1:
                    pod = replace(pod, raw=None, problem="cannot be read")
                bound[pod.uid] = pod
            elif act < 0.6 and bound:
                pod = bound.pop(draw.choice(sorted(bound)))
                ended[pod.uid] = EndedPod(pod, (2, 0.0, 0.0, number, pod.name), 0.0)
            elif act < 0.7 and bound:
                uid = draw.choice(sorted(bound))
                bound[uid] = replace(bound[uid], runs=not bound[uid].runs)
            elif act < 0.85:
                raw = some_pod(draw, f"p{number}")
                promised[raw.uid] = Promise(raw, "a", 0.0)
            elif promised:
                uid = draw.choice(sorted(promised))
                raw = promised.pop(uid).pod
                if draw.random() < 0.7:
                    order = (2, 0.0, 0.0, number, raw.name)
                    bound[uid] = ClusterPod(uid, "default", raw.name, raw, node="a", order=order)
            what = list(bound.values()), list(ended.values()), list(promised.values())
            played = assumed_node(published, *what, replay)
            assert same(played, assumed_node(published, *what)), (seed, number)
            kept += played is before
            before = played
            refused += bool(played.refused)
            doubted += bool(played.doubts)
        longest = max(longest, len(bound) + 2 * len(ended) + len(promised))
    assert longest > MOST_REMEMBERED
    assert refused
    assert doubted
    assert kept
