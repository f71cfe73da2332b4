"""Ratings without asking are those that asking gives, reasons included."""

import random
from functools import partial

import pytest

from numawise.cluster.asking import Asker
from numawise.cluster.choice import Chooser
from numawise.cluster.quick_rating import QuickRatings
from numawise.machine.description import NodeDescription, Taint
from numawise.request.constraints import NO_CONSTRAINTS, NODE_IS_NOT_READY
from numawise.values import replace
from tests.property.lives import CONFIGS, go_on, is_plain, members, some_pod
from tests.property.test_counting import SHAPES

TAINTS = (Taint("small", "PreferNoSchedule"),)
LABELLED = tuple(
    replace(
        shape,
        constraints=replace(NO_CONSTRAINTS, node_selector={"zone": zone}, tolerations=NODE_IS_NOT_READY),
    )
    for shape in SHAPES[:4]
    for zone in ("x", "z")
)


class Never(QuickRatings):
    """Always asks."""

    def rate(self, *_: object) -> None:
        return None


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: "-".join(map(str, config.values()))[:40])
def test_quick_is_what_asking_says(config: dict[str, object]) -> None:
    quick = 0
    for seed in range(5):
        draw = random.Random(seed)
        nodes = members(config, 2)
        for member, zone in zip(nodes, ("x", "y"), strict=True):
            member.kind = "kind"
            member.node.describe(NodeDescription(member.name, {"zone": zone}, taints=TAINTS))
            member.allocatable = member.node.allocatable()
        asker = Asker(nodes)
        chooser, slow = Chooser(nodes, asker), Chooser(nodes, asker)
        slow.quick = Never(asker)
        for shape in SHAPES + LABELLED:
            chooser.shapes.see(shape)
            slow.shapes.see(shape)
        for step in range(50):
            member = draw.choice(nodes)
            go_on(draw, asker, member, partial(some_pod, draw, f"{member.name}-{step}"), ends=0.45)
            probe = draw.choice(SHAPES + LABELLED)
            told, expected = chooser.rate(member, probe), slow.rate(member, probe)
            assert told == expected, (seed, step, probe)
            others = [(k, o.shape.name, o.pods[0], 4) for k, o in chooser.shapes.known.items()]
            quick += (
                chooser.quick.rate(member, chooser.shapes.known[asker.shape(probe)].pods[0], others)
                is not None
            )
    assert (quick > 20) == is_plain(config)
