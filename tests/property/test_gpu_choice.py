"""The choice of GPUs against literal readings: of our own sort key, and of NVIDIA's best-effort policy."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numawise.codec.hardware.nvidia_topo import read
from numawise.errors import InputError
from numawise.gpus.choose import GpuLinks, choices
from numawise.gpus.measure import MOST_DIVIDED, Measure, best_nested, nesting
from numawise.gpus.search import best_searched
from numawise.machine.hardware import Gpu
from numawise.machine.nearest import gpus_of
from numawise.sets import bits_of, ids_of
from tests.property.strategies import laws

Points = Sequence[Sequence[int]]
Gpus = tuple[int, ...]

LINKS = (0, 10, 20, 30, 40, 50, 60, 110, 120, 150, 210, 220, 410, 1210, 1820)
PRINTS = (
    Path(__file__).parents[1] / "machines" / "data" / "texts" / "nvidia-topo",
    Path(__file__).parents[3] / "shared" / "data" / "nvidia-topo",
)


# --- machines -----------------------------------------------------------------------------------


def linked(points: Points, homes: Sequence[int]) -> GpuLinks:
    words = tuple(tuple(str(value) for value in row) for row in points)
    gpus = tuple(Gpu(f"GPU{i}") for i in range(len(points)))
    return GpuLinks(gpus, tuple(1 << home for home in homes), tuple(map(tuple, points)), words)


@st.composite
def meshes(draw: st.DrawFn, least: int, most: int) -> GpuLinks:
    """Any link between any two, of few or of many kinds."""
    count = draw(st.integers(least, most))
    kinds = draw(st.lists(st.sampled_from(LINKS), min_size=1, max_size=4, unique=True))
    points = [[0] * count for _ in range(count)]
    for i, j in combinations(range(count), 2):
        points[i][j] = points[j][i] = draw(st.sampled_from(kinds))
    return linked(points, draw(st.lists(st.integers(0, 2), min_size=count, max_size=count)))


@st.composite
def nested(draw: st.DrawFn, least: int, most: int) -> GpuLinks:
    """Groups in groups in groups, in any order of the GPUs."""
    count = draw(st.integers(least, most))
    levels = sorted(draw(st.lists(st.sampled_from(LINKS), min_size=1, max_size=4, unique=True)))
    paths = [tuple(draw(st.integers(0, 2)) for _ in levels[1:]) for _ in range(count)]
    points = [[0] * count for _ in range(count)]
    for i, j in combinations(range(count), 2):
        shared = next((at for at, (a, b) in enumerate(zip(paths[i], paths[j], strict=True)) if a != b), -1)
        points[i][j] = points[j][i] = levels[shared]
    return linked(points, [path[0] if path else 0 for path in paths])


@st.composite
def requests(draw: st.DrawFn, links: GpuLinks, *, must: bool = True) -> tuple[int, int, int]:
    """Free GPUs, how many are asked for, and which of them must be in."""
    taken = draw(st.sets(st.sampled_from(range(len(links.gpus))), max_size=len(links.gpus) // 2))
    free = links.every & ~bits_of(taken) or 1
    count = draw(st.integers(1, free.bit_count()))
    wanted = draw(st.sets(st.sampled_from(list(ids_of(free))), max_size=min(count, 2))) if must else ()
    return free, count, bits_of(wanted)


# --- literal readings ---------------------------------------------------------------------------


def total(points: Points, gpus: Iterable[int]) -> int:
    return sum(points[i][j] for i, j in combinations(sorted(gpus), 2))


def divisions(gpus: Gpus, size: int) -> Iterator[list[Gpus]]:
    """Every way to divide GPUs into sets of one size, and one smaller set when they do not come out even."""
    if len(gpus) <= size:
        yield [gpus] if gpus else []
        return
    first, *others = gpus
    for length in {size, len(gpus) % size} - {0}:
        for mates in combinations(others, length - 1):
            rest = tuple(gpu for gpu in others if gpu not in mates)
            for more in divisions(rest, size):
                yield [(first, *mates), *more]


def division_points(points: Points, sets: Iterable[Gpus]) -> int:
    return sum(total(points, gpus) for gpus in sets)


def best_division(points: Points, gpus: Gpus, size: int) -> int:
    return max((division_points(points, sets) for sets in divisions(gpus, size)), default=0)


def by_levels(points: Points, gpus: Gpus, size: int) -> int:
    """What groups at every level promise: at each point of links, by the GPUs that reach each other."""
    worth, top = 0, 0
    for level in sorted({points[i][j] for i, j in combinations(gpus, 2)} - {0}):
        left = set(gpus)
        while left:
            group, edge = set(), {left.pop()}
            while edge:
                group |= edge
                edge = {j for i in edge for j in left if points[i][j] >= level}
                left -= edge
            jobs, part = divmod(len(group), size)
            worth += (level - top) * (jobs * size * (size - 1) + part * (part - 1)) // 2
        top = level
    return worth


def literal_choices(links: GpuLinks, free: int, count: int, must: int) -> list[int]:
    """The best set for every set of NUMA nodes, best first, by the sort key as it is written down."""
    members = tuple(ids_of(free))
    useful = best_division if len(members) <= MOST_DIVIDED else by_levels
    sizes = [size for size in dict.fromkeys((count, 2, 4, 8, 16)) if 1 < size <= len(members)]
    best: dict[int, tuple[Any, Gpus]] = {}
    for gpus in combinations(members, count):
        if must & ~bits_of(gpus):
            continue
        rest = tuple(i for i in members if i not in gpus)
        numa = links.numa_of(bits_of(gpus))
        key = (
            -links.worst_class(bits_of(gpus)),
            numa.bit_count(),
            -total(links.points, gpus),
            *(-useful(links.points, rest, size) for size in sizes),
            gpus,
        )
        if numa not in best or key < best[numa][0]:
            best[numa] = key, gpus
    return [bits_of(gpus) for _, gpus in sorted(best.values())]


def nvidia(points: Points, free: Gpus, count: int, must: int) -> tuple[int, list[Gpus]]:
    """NVIDIA's best-effort policy: the most points of a division, and the sets it may come to return.

    The free GPUs are divided into sets of the size asked for, what is left over being a set of its own;
    one set has all that must be in.  The division with the most points wins, then the best set of it.
    """
    if count == 1:
        return 0, [(gpu,) for gpu in free if not must & ~(1 << gpu)]
    most, found = -1, []
    for sets in divisions(free, count):
        serving = [gpus for gpus in sets if len(gpus) == count and not must & ~bits_of(gpus)]
        worth = division_points(points, sets)
        if serving and worth >= most:
            found = [*(found if worth == most else []), max(serving, key=lambda gpus: total(points, gpus))]
            most = worth
    return most, found


# --- laws ---------------------------------------------------------------------------------------


@laws(500)
@given(st.data())
def test_sort_key(data: st.DataObject) -> None:
    links = data.draw(st.one_of(meshes(1, 7), nested(1, 7)))
    free, count, must = data.draw(requests(links))
    assert [one.gpus for one in choices(links, free, count, must)] == literal_choices(
        links, free, count, must
    )


@laws(150)
@given(st.data())
def test_sort_key_of_many(data: st.DataObject) -> None:
    links = data.draw(st.one_of(meshes(MOST_DIVIDED + 1, 12), nested(MOST_DIVIDED + 1, 12)))
    count = data.draw(st.sampled_from((1, 2, 3, 10)))
    must = data.draw(st.sampled_from((0, 0, 1, 1 << 10)))
    found = choices(links, links.every, count, must)
    assert [one.gpus for one in found] == literal_choices(links, links.every, count, must)


@laws(300)
@given(st.data())
def test_nested_and_searched_agree(data: st.DataObject) -> None:
    links = data.draw(nested(MOST_DIVIDED + 1, 15))
    free, count, must = data.draw(requests(links))
    measure = Measure(links.points, free, count)
    groups = nesting(measure)
    assert groups is not None
    if not measure.small:
        assert best_nested(measure, groups, links.numa, must) == best_searched(measure, links.numa, must)


@laws(300)
@given(st.data())
def test_never_worse_than_nvidias_policy(data: st.DataObject) -> None:
    links = data.draw(st.one_of(meshes(1, 7), nested(1, 7)))
    one_home = linked(links.points, [0] * len(links.gpus))
    free, count, must = data.draw(requests(links))
    compare(one_home, free, count, must)
    compare(links, free, count, must)


def compare(links: GpuLinks, free: int, count: int, must: int) -> None:
    """The choice is no worse than NVIDIA's by worst link, NUMA nodes and points; in one NUMA node, with equal
    ones, its rest is as good.
    """
    members = tuple(ids_of(free))
    most, theirs = nvidia(links.points, members, count, must)
    first = choices(links, free, count, must)[0]
    mine = tuple(ids_of(first.gpus))

    def key(gpus: Gpus) -> tuple[int, int, int]:
        packed = bits_of(gpus)
        return links.worst_class(packed), -links.numa_of(packed).bit_count(), total(links.points, gpus)

    assert key(mine) == max(key(gpus) for gpus in combinations(members, count) if not must & ~bits_of(gpus))
    assert key(mine) >= max(map(key, theirs))
    best = max(total(links.points, gpus) for gpus in theirs)
    equal = key(mine)[0] == min(key(gpus)[0] for gpus in theirs) and key(mine)[2] == best
    if len(set(links.numa)) == 1 and count > 1 and equal:
        rest = tuple(i for i in members if i not in mine)
        assert best + best_division(links.points, rest, count) >= most


@laws(200)
@given(st.data())
def test_one_gpu_breaks_no_pair(data: st.DataObject) -> None:
    """No other GPU would leave better pairs."""
    links = data.draw(st.one_of(meshes(2, 7), nested(2, 7)))
    links = linked(links.points, [0] * len(links.gpus))
    free, *_ = data.draw(requests(links, must=False))
    (mine,) = ids_of(choices(links, free, 1)[0].gpus)
    members = tuple(ids_of(free))
    pairs = {gpu: best_division(links.points, tuple(i for i in members if i != gpu), 2) for gpu in members}
    assert pairs[mine] == max(pairs.values())


@laws(60)
@given(st.data())
def test_choices_are_in_order_and_serve(data: st.DataObject) -> None:
    links = data.draw(st.one_of(meshes(1, 20), nested(1, 40)))
    free, count, must = data.draw(requests(links))
    found = choices(links, free, count, must)
    assert found
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert len({one.numa for one in found}) == len(found)
    for one in found:
        assert not one.gpus & ~free
        assert not must & ~one.gpus
        assert one.gpus.bit_count() == count
        assert one.numa == links.numa_of(one.gpus)
        assert one.points == links.points_of(one.gpus)
        assert one.worst == links.worst(one.gpus)
    assert choices(links, free, count, must) == found


def printed() -> list[Any]:
    """Every matrix of two to eight GPUs that people have printed, once."""
    found: dict[Points, Any] = {}
    for folder in PRINTS:
        for path in sorted(folder.glob("*.txt")):
            try:
                hardware = read(path.read_text(), path.name)
            except InputError:
                continue
            links = GpuLinks.of(hardware, gpus_of(hardware))
            if 2 <= len(links.gpus) <= 8:
                found.setdefault(links.points, pytest.param(links, id=path.stem))
    return list(found.values())


@pytest.mark.parametrize("links", printed())
def test_printed_matrices(links: GpuLinks) -> None:
    """The laws on real machines: all free, and some of the states they get into."""
    random = Random(len(links.gpus))
    one_home = linked(links.points, [0] * len(links.gpus))
    states = {links.every, *(random.randint(1, links.every) for _ in range(4))}
    for free in sorted(states):
        for count in range(1, free.bit_count() + 1):
            compare(links, free, count, 0)
            compare(one_home, free, count, 0)
