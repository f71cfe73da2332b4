"""Places that are counted are those that trying would give."""

import random
from functools import partial

import pytest

from numawise.cluster.asking import Asker, LetIn, Situation
from numawise.cluster.counting import counted_places
from numawise.request.defaults import RawPod
from numawise.values import replace
from tests.property.lives import CONFIGS, go_on, is_plain, members, some_pod
from tests.unit.cluster.nodes import gpu_pod

MOST = 4
SHAPES = (
    gpu_pod("s", 1),
    gpu_pod("s", 2, "2", "2Gi"),
    gpu_pod("s", 4, "3", "9Gi"),
    gpu_pod("s", 0, "7", "1Gi"),
    gpu_pod("s", 0, "8", "1Gi"),
    gpu_pod("s", 0, "9", "20Gi"),
    gpu_pod("s", 0, "500m", "5Gi"),
    gpu_pod("s", 5, "1", "1Gi"),
)


def tried(asker: Asker, situation: Situation, raw: RawPod) -> int:
    for number in range(MOST):
        answer = asker.ask(situation, replace(raw, uid=f"copy {number}"))
        if not isinstance(answer, LetIn):
            return number
        situation = situation.after(answer)
    return MOST


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: "-".join(map(str, config.values()))[:40])
def test_counted_is_tried(config: dict[str, object]) -> None:
    counted = 0
    for seed in range(4):
        draw = random.Random(seed)
        nodes = members(config, 2)
        asker = Asker(nodes)
        for step in range(60):
            member = draw.choice(nodes)
            go_on(draw, asker, member, partial(some_pod, draw, f"{member.name}-{step}"), ends=0.45)
            shape = draw.choice(SHAPES)
            number = counted_places(asker, Situation.of(member), shape, MOST)
            if number is not None:
                counted += 1
                assert number == tried(asker, Situation.of(member), shape), (seed, step, shape)
    assert (counted > 60) == is_plain(config)
