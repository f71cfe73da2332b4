"""Links between GPUs as numbers, so that sets of GPUs can be compared.

Rules kept here:

1. The points of a pair are those of NVIDIA's go-gpuallocator: 100 for every NVLink between the two, and
   for the way over PCIe 60 on one board, 50 PIX, 40 PXB, 30 PHB, 20 NODE, 10 SYS, 0 when unknown.  A
   pair with NVLinks has both.  An xGMI link counts like one NVLink.
2. The way over PCIe beside NVLinks is not printed in a link matrix: it follows from the PCIe tree, else
   from the NUMA nodes the two GPUs are reported with.
3. Two MIG instances of one GPU are the same GPU: no link is better.
4. Where the two directions of a matrix differ, the worse one counts.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations

from numawise.machine.hardware import Gpu, Hardware
from numawise.machine.locality import DIRECT, NODE, SELF, SYS
from numawise.machine.nearest import GpuPlace, chip_of, gpu_links, placed_gpus
from numawise.sets import ids_of
from numawise.strconv import whole_number
from numawise.values import dataclass, field, replace

POINTS = {"PSB": 60, "PIX": 50, "PXB": 40, "PHB": 30, "NODE": 20, "SYS": 10, "SOC": 10}
DIRECT_POINTS = 100
MOST_DIRECT = 72
"""NVLinks of one GPU, with room for those to come."""
SAME_GPU = (MOST_DIRECT + 1) * DIRECT_POINTS


@dataclass(frozen=True, slots=True)
class GpuLinks:
    """Some GPUs, by position, with the points and the words of the link of every pair."""

    gpus: tuple[Gpu, ...]
    numa: tuple[int, ...]
    """Packed home of each: one NUMA node with CPUs, or 0."""
    points: tuple[tuple[int, ...], ...]
    """Of every pair; the same both ways."""
    texts: tuple[tuple[str, ...], ...]
    """As ``nvidia-smi topo -m`` prints them; '' when unknown."""
    places: tuple[GpuPlace, ...] = ()
    distances: Mapping[int, int] = field(default_factory=dict)
    """Two NUMA nodes, packed → distance."""

    @staticmethod
    def of(hardware: Hardware, gpus: Sequence[Gpu]) -> "GpuLinks":
        """The links between GPUs of a machine; positions are those in the sequence."""
        places = placed_gpus(hardware, gpus) if gpus else ()
        links = gpu_links(hardware, gpus)
        tree = replace(links, told={})
        told = {chip_of(at.gpu): at.numa if at.near == at.numa else 0 for at in places}
        points = [[0] * len(gpus) for _ in gpus]
        texts = [[SELF] * len(gpus) for _ in gpus]
        for (i, one), (j, other) in combinations(enumerate(map(chip_of, gpus)), 2):
            beside = tree.between(one, other) or _by_numa(told[one], told[other])  # of one GPU: itself
            words = (links.told.get(one, {}).get(other), links.told.get(other, {}).get(one))
            worth = {text: _points(text, beside) for text in words if text}
            if one == other or not worth:
                worth = {beside: _points(beside, "")}
            text = min(worth, key=worth.__getitem__)
            points[i][j] = points[j][i] = worth[text]
            texts[i][j] = texts[j][i] = text
        return GpuLinks(
            gpus=tuple(gpus),
            numa=tuple(place.numa for place in places),
            points=tuple(map(tuple, points)),
            texts=tuple(map(tuple, texts)),
            places=places,
            distances={
                1 << node.id | 1 << other: distance
                for node in hardware.numa
                for other, distance in node.distances
                if node.id >= 0 and other >= 0 and node.id != other
            },
        )

    @property
    def every(self) -> int:
        """All positions, packed."""
        return (1 << len(self.gpus)) - 1

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was resolved about the places of the GPUs, a sentence each."""
        return tuple(dict.fromkeys(place.remark for place in self.places if place.remark))

    def numa_of(self, gpus: int) -> int:
        """NUMA nodes of some GPUs, packed."""
        bits = 0
        for i in ids_of(gpus):
            bits |= self.numa[i]
        return bits

    def spread(self, numa: int) -> int:
        """How far apart some NUMA nodes are: the sum of the distances between any two."""
        return sum(
            self.distances.get(1 << one | 1 << other, 0) for one, other in combinations(ids_of(numa), 2)
        )

    def points_of(self, gpus: int) -> int:
        """Points of all pairs among some GPUs."""
        return sum(self.points[i][j] for i, j in combinations(ids_of(gpus), 2))

    def worst_class(self, gpus: int) -> int:
        """The class of the worst link among some GPUs; of one GPU, the best there is."""
        pairs = combinations(ids_of(gpus), 2)
        return min((class_of(self.points[i][j]) for i, j in pairs), default=class_of(DIRECT_POINTS))

    def worst(self, gpus: int) -> str:
        """The worst link among some GPUs; '' for one GPU, or when unknown."""
        pairs = combinations(ids_of(gpus), 2)
        found = min(pairs, key=lambda pair: self.points[pair[0]][pair[1]], default=None)
        return self.texts[found[0]][found[1]] if found else ""

    def names(self, gpus: int) -> str:
        """Some GPUs by name."""
        return ", ".join(self.gpus[i].name for i in ids_of(gpus))


def class_of(points: int) -> int:
    """The class of a link by its points: all direct links are one, above the ways over PCIe."""
    return min(points, DIRECT_POINTS)


def _by_numa(one: int, other: int) -> str:
    return "" if not one or not other else NODE if one == other else SYS


def _points(text: str, beside: str) -> int:
    """Points of a link; ``beside`` is the way over PCIe next to direct links."""
    if text == SELF:
        return SAME_GPU
    if not text.startswith(DIRECT):
        return POINTS.get(text, 0)
    digits = "".join(c for c in text if c.isdecimal())
    return min(whole_number(digits or "1"), MOST_DIRECT) * DIRECT_POINTS + POINTS.get(beside, 0)
