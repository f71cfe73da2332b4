"""Which node a pod goes to: aligned first, then what stays whole, then the fullest; and the sentence for it."""

import pytest

from numawise.cluster.choice import MOST_SHAPES, Chooser, shape_of
from numawise.results.cluster import NodeRating
from tests.unit.cluster.nodes import GPU, gpu_pod, nodes, put


def chooser_of(*loads: tuple[int, ...], shapes: tuple[int, ...] = (1, 2, 4)) -> Chooser:
    """A node for each load: pods of so many GPUs, one after the other."""
    members = nodes(len(loads))
    chooser = Chooser(members)
    for gpus in shapes:
        chooser.shapes.see(gpu_pod(f"seen-{gpus}", gpus))
    for member, load in zip(members, loads, strict=True):
        for number, gpus in enumerate(load):
            put(chooser.asker, member, gpu_pod(f"{member.name}-{number}", gpus))
    return chooser


@pytest.mark.parametrize(("loads", "gpus", "best"), [
    pytest.param([(), (1,)],         1, 1,    id="a half that is broken already"),
    pytest.param([(2,), (1, 2)],     1, 1,    id="the last one of a half, so that a pair stays"),
    pytest.param([(1,), (2,)],       2, 1,    id="a pair that fits"),
    pytest.param([(4, 4), (4,)],     4, 1,    id="where there is room"),
    pytest.param([(4,), ()],         4, 0,    id="beside others, so that a node stays empty"),
    pytest.param([(4, 4), (4, 4)],   1, None, id="nowhere"),
    pytest.param([(2, 2, 3), (3, 3)], 2, None, id="two free on two halves are no pair"),
    pytest.param([(), ()],           1, 0,    id="the first of equals"),
])  # fmt: skip
def test_best(loads: list[tuple[int, ...]], gpus: int, best: int | None) -> None:
    chooser = chooser_of(*loads)
    chosen = chooser.best(gpu_pod("new", gpus))
    assert (None if chosen is None else chosen.number) == best
    ranked = chooser.ranked(gpu_pod("new", gpus))
    assert (ranked[0].number if ranked else None) == best


def test_larger_shapes_nobody_asks_for_are_not_spared() -> None:
    pod = gpu_pod("new", 1)
    assert chooser_of((3,), (2,), shapes=(1,)).best(pod).name == "n0"  # type: ignore[union-attr]
    rating = chooser_of((), shapes=(1,)).verdicts(pod)[0]
    assert isinstance(rating, NodeRating)
    assert rating.lost == ()


def test_the_later_company_of_equals() -> None:
    members = nodes(3)
    chooser = Chooser(members)
    chooser.shapes.see(gpu_pod("large", 4))
    for member, now in zip(members, (10.0, 500.0, 300.0), strict=True):
        put(chooser.asker, member, gpu_pod(f"on-{member.name}", 2), now)
    assert [member.name for member in chooser.ranked(gpu_pod("new", 1))] == ["n1", "n2", "n0"]


def test_alignment_comes_first() -> None:
    strict, loose = nodes(1), nodes(1, topologyManagerPolicy="none", topologyManagerScope="container")
    loose[0].number = 1
    chooser = Chooser((*loose, *strict))
    put(chooser.asker, loose[0], gpu_pod("there", 3))
    assert chooser.best(gpu_pod("new", 2)) is strict[0]


def test_what_a_node_would_lose() -> None:
    chooser = chooser_of((), (1,), (4, 4))
    first, second, third = chooser.verdicts(gpu_pod("new", 1))
    assert isinstance(first, NodeRating)
    assert isinstance(second, NodeRating)
    assert (first.aligned, first.numa, first.left) == (True, 1, (3, 6))
    taken = [(places.shape, places.count) for places in first.lost]
    assert taken == [("4 gpu, 1 cpu, 1Gi", 1), ("2 gpu, 1 cpu, 1Gi", 1)]
    assert (second.aligned, second.numa, second.left) == (True, 1, (2, 5))
    assert [places.count for places in second.lost] == [0, 0]
    assert third == f"OutOf{GPU}"


def test_shapes_are_learned_by_number() -> None:
    chooser = Chooser(nodes(1))
    for number in range(MOST_SHAPES + 3):
        chooser.shapes.see(gpu_pod("p", 0, cpu=str(number + 1)))
    often = gpu_pod("often", 0, cpu="50")
    before = chooser.shapes.version
    for _ in range(3):
        chooser.shapes.see(often)
    assert len(chooser.shapes.counted) == MOST_SHAPES
    assert chooser.asker.shape(often) in chooser.shapes.counted
    assert chooser.shapes.version > before


@pytest.mark.parametrize(("pod", "name"), [
    (gpu_pod("a", 4, "88", "900Gi"), "4 gpu, 88 cpu, 900Gi"),
    (gpu_pod("a", 0, "500m", "64Mi"), "500m cpu, 64Mi"),
])  # fmt: skip
def test_names_of_shapes(pod: object, name: str) -> None:
    assert shape_of(pod).name == name  # type: ignore[arg-type]
