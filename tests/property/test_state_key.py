"""Nodes that are taken for equal answer equally, whatever happened to each of them."""

import random
from functools import partial

import pytest

from numawise.cluster.asking import Asker, Member, Situation
from numawise.engine.state import NodeState
from numawise.request.defaults import RawPod
from tests.property.lives import CONFIGS, go_on, members, some_pod
from tests.unit.cluster.nodes import gpu_pod


def common_pod(draw: random.Random, name: str) -> RawPod:
    """One of few, so that states come again."""
    return gpu_pod(name, draw.choice((0, 1, 1)), "2")


def granted(state: NodeState, uid: str) -> object:
    return (
        state.cpu.assignments.get(uid),
        state.memory.assignments.get(uid),
        {c: {r: g.ids for r, g in own.items()} for c, own in state.devices.grants.get(uid, {}).items()},
    )


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: "-".join(map(str, config.values()))[:40])
def test_equal_tokens_equal_answers(config: dict[str, object]) -> None:
    met = 0
    for seed in range(3):
        draw = random.Random(seed)
        nodes = members(config, 6)
        asker = Asker(nodes)
        for step in range(120):
            member = draw.choice(nodes)
            name = f"{member.name}-{step}"
            go_on(draw, asker, member, partial(common_pod, draw, name), ends=0.3, most=1)
            alike: dict[int, list[Member]] = {}
            for one in nodes:
                alike.setdefault(one.token, []).append(one)
            probe = some_pod(draw, "probe")
            for first, *others in alike.values():
                expected = asker.ask(Situation.of(first), probe)
                for other in others[:1]:
                    met += first.node.state is not other.node.state
                    answer = asker.ask(Situation.of(other), probe)
                    if isinstance(expected, str) or isinstance(answer, str):
                        assert answer == expected
                    else:
                        assert granted(answer.state, "probe") == granted(expected.state, "probe")
    assert met > 20
